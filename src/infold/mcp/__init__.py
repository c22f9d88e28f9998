"""Recall for agents that speak the Model Context Protocol: the tools, and the server that offers them."""
