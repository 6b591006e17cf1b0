#!/bin/sh
# Makes sure that there is a Chromium for the browser tests: installs Debian's where it may, and names it where it may not.
set -eu
for name in chromium chromium-browser google-chrome; do
    if command -v "$name" > /dev/null; then
        exit 0
    fi
done
if [ "$(id -u)" = 0 ] && command -v apt-get > /dev/null; then
    echo "Installing chromium ..."
    if apt-get install --yes --quiet --no-install-recommends chromium > /dev/null 2>&1; then
        exit 0
    fi
    apt-get update --quiet > /dev/null && apt-get install --yes --quiet --no-install-recommends chromium > /dev/null && exit 0
fi
echo "The browser tests need Chromium, package 'chromium' on Debian: sudo apt-get install chromium" >&2
exit 1
