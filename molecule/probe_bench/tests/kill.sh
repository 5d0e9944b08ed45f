#!/bin/sh
# kill.sh parent|guard|all: kills a benchmark that has an event defined, and waits until all of it is gone.
victim=$1
setsid sh -c '/usr/lib/fetchbpf/fetchbpf-bench --loops 2000 --rounds 1000 fetcharg; :' > /dev/null 2>&1 < /dev/null &
parent=$!
until grep -q fetchbpf_bench /sys/kernel/tracing/dynamic_events; do
    kill -0 "$parent" || exit 1
done
case $victim in
parent) kill -9 "$parent" ;;
guard) kill -9 "$(pgrep -o fetchbpf-bench)" ;;
all) pgrep fetchbpf-bench | xargs kill -9 ;;
esac
while pgrep fetchbpf-bench > /dev/null; do
    sleep 0.2
done
echo killed
