"""What people and machines read: consumers of events while a run goes on, and of one verdict when it is over."""
