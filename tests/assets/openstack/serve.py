"""Serves a WSGI application: one request at a time, which is what SQLite bears."""

import importlib
import sys

import waitress

module, address, port = sys.argv[1:4]
# Some applications parse the arguments of their process.
sys.argv = [module]
application = importlib.import_module(module).application
waitress.serve(application, host=address, port=int(port), threads=1)
