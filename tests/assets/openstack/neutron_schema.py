"""Makes Neutron's tables. Its own migrations do not work with SQLite."""

import sys

from neutron.db.migration.models import head
from sqlalchemy import create_engine

head.get_metadata().create_all(create_engine(sys.argv[1]))
