"""What wrapped clients and the gateway share: parse a request, find its session, prepare it, observe the reply."""
