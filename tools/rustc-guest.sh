#!/bin/sh
# Stands before rustc when the agent is built (RUSTC_WORKSPACE_WRAPPER): links its program statically, because
# the machine that it runs in brings no libraries for it, and small. The rest is built as always, and shared.
case " $* " in
    *" --crate-name causerie_guest "*) exec "$@" -C target-feature=+crt-static -C strip=symbols ;;
    *) exec "$@" ;;
esac
