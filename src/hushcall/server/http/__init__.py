"""What listens: the app, its routes and problem details, and the two uploads that come by the thousand."""
