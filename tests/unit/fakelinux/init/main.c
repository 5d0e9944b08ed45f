int main_value(void) { return 1; }
