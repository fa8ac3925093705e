"""How often the certificate is wrong: planted problems with a known answer for every claim (`./run truth`)."""
