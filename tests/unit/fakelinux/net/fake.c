int fake_module(void) { return 3; }
