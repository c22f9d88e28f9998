"""Recall for any agent that speaks the Model Context Protocol: what the tools do, and the server that offers them."""
