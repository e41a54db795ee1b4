"""A folder with all that a Flower federation over TLS needs: certificates, keys, scripts, units, a README."""
