# make deploy   the main job, on the embedded lab
# make test     all tests;  make test-fast: those that need no VM
# make kernel-test  the kernel series on its bases, in guests of their own; takes an hour or more at first
# make down     stops the lab's guests and removes them

SHELL := /bin/bash
VENV := .venv
PYTHON ?= python3
export PATH := $(CURDIR)/$(VENV)/bin:$(PATH)
export ANSIBLE_CONFIG := $(CURDIR)/ansible.cfg
ARGS ?=

.PHONY: deploy rollback report report-picture down test test-fast kernel-test lint unit sanity integration clean

deploy: $(VENV)/.controller
	ansible-playbook -i inventories/lab deploy_fetchbpf.yml $(ARGS)

rollback: $(VENV)/.controller
	ansible-playbook -i inventories/lab playbooks/rollback_fetchbpf.yml $(ARGS)

report: $(VENV)/.controller
	ansible-playbook -i inventories/lab playbooks/perf_report.yml $(ARGS)

# The README's picture, of the lab's newest report or of REPORT=…/report.html.
REPORT ?= $(or $(FETCHBPF_CACHE),$(HOME)/.cache/fetchbpf)/reports/$(or $(FETCHBPF_LAB),default)/latest/report.html
report-picture: $(VENV)/.test
	$(VENV)/bin/python tests/integration/report_picture.py $(REPORT) docs/report.png

down: $(VENV)/.controller
	ansible-playbook -i inventories/lab playbooks/lab_down.yml $(ARGS)

test: $(VENV)/.test
	tests/run all

test-fast: $(VENV)/.test
	tests/run fast

kernel-test: $(VENV)/.test
	tests/run packages kernel

lint unit sanity integration: $(VENV)/.test
	tests/run $@

$(VENV)/bin/python:
	tests/venv $(PYTHON) $(VENV)

$(VENV)/.controller: requirements.txt $(VENV)/bin/python
	$(VENV)/bin/python -m pip install --quiet -r requirements.txt
	touch $@

$(VENV)/.test: requirements.txt requirements-test.txt $(VENV)/bin/python
	$(VENV)/bin/python -m pip install --quiet -r requirements-test.txt
	touch $@ $(VENV)/.controller

clean:
	rm -rf $(VENV) .ansible .mypy_cache .pytest_cache .ruff_cache
