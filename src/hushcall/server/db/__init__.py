"""The database: its tables, the connection, and how old ones are brought up to date."""
