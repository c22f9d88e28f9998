"""The page: sessions in a store, looked at in a browser."""
