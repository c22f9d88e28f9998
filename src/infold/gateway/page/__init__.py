"""The page of the gateway: sessions, their window over time, and what infold did to them."""
