#!/usr/bin/env bash
# What a borrowed GPU machine lacks goes to carry/, which git ignores: CIFAR-100's tiles, and packages for its Python.
# Usage, in the repository: bash benchmarks/carry.sh SHARED_DATA [PYTHON_VERSION]   (SHARED_DATA holds cifar100.py)
# A call takes 64 MiB, the repository included: send one part after the other, and on the other side each time
#   mkdir -p /tmp/z/cifar100 && mv carry/PART/*.zip /tmp/z/cifar100/; mv carry/PART/* /tmp/z/
# then, after the last: python3 /tmp/z/cifar100.py /tmp/cifar; tar xzf /tmp/z/site.tgz -C /tmp/z; PYTHONPATH=$PWD:/tmp/z/site
set -eu
shared=$1 version=${2:-3.12}
rm -rf carry && mkdir -p carry/a carry/b carry/c carry/site
cp "$shared/cifar100/train_a.zip" "$shared/cifar100/headers.zip" "$shared/cifar100.py" carry/a/
cp "$shared/cifar100/train_b.zip" carry/b/
cp "$shared/cifar100/test.zip" carry/c/
pinned=()
for name in zstandard typer rich click shellingham markdown-it-py mdurl pygments typing_extensions annotated-doc jinja2 \
    markupsafe filelock; do
    pinned+=("$(grep -iE "^${name//[-_]/[-_]}==" constraints.txt || echo "$name")")
done
.venv/bin/pip install --quiet --target carry/site --python-version "$version" --only-binary=:all: --no-deps "${pinned[@]}"
rm -f carry/site/zstandard/*cffi*  # 20 MB that nothing here calls
find carry/site -name __pycache__ -prune -exec rm -rf {} +
tar czf carry/c/site.tgz -C carry site && rm -r carry/site
du -sh carry/*
