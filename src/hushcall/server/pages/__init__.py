"""What the server shows in a browser: templates and static files, all written here, nothing fetched from elsewhere."""
