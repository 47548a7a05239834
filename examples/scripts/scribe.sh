#!/bin/sh
# It takes part by commands; its identity is in its environment.
set -eu
counted=$(rookery context inbox | grep -o '[0-9]* lines' | tail -n 1)
rookery context doc append "- $counted, counted by the team
"
rookery context send "Written down: $counted."
