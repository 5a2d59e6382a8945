"""Who may look at the pages: logins, what every request has to pass, and what people did."""
