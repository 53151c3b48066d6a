#!/usr/bin/env bash
# Writes gen/ from proto/: gen.sh go|python|java.
# Run it through `make gen`, which lays buf and the Python tools into
# .cache/gen/venv first.
set -euo pipefail
cd "$(dirname "$0")/.."

bin=$PWD/.cache/gen/venv/bin
# Not above protobuf.version of clients/java/pom.xml: generated code refuses an
# older runtime.
protoc_version=4.36.2

fail() {
  echo "gen.sh: $*" >&2
  exit 1
}

need() {
  command -v "$1" >/dev/null || fail "$1 is missing: install $2"
}

gen_go() {
  "$bin/buf" generate
}

gen_python() {
  rm -rf gen/python
  mkdir -p gen/python
  # In proto/, because the path of a file decides the name of its module.
  (cd proto && "$bin/python" -m grpc_tools.protoc \
    --proto_path=. --proto_path=../third_party/proto \
    --plugin="$bin/protoc-gen-mypy" --plugin="$bin/protoc-gen-mypy_grpc" \
    --python_out=../gen/python --grpc_python_out=../gen/python \
    --mypy_out=quiet:../gen/python --mypy_grpc_out=quiet:../gen/python \
    ackmesh/v1/*.proto)
  echo '"""Generated messages and gRPC stubs of package ackmesh.v1."""' \
    >gen/python/ackmesh/v1/__init__.py
}

# platform prints the classifier under which Maven knows this machine's protoc.
platform() {
  case "$(uname -s)-$(uname -m)" in
    Linux-x86_64) echo linux-x86_64 ;;
    Linux-aarch64) echo linux-aarch_64 ;;
    Darwin-*) echo osx-universal_binary ;;
    *) fail "no protoc is known for $(uname -s) on $(uname -m)" ;;
  esac
}

# install_protoc lays protoc of protoc_version to .cache/gen/protoc.
install_protoc() {
  local file dir=.cache/gen/protoc-$protoc_version
  file=$dir/protoc-$protoc_version-$(platform).exe
  if [[ ! -f $file ]]; then
    need mvn "Maven 3.8 or newer (apt-get install maven)"
    mvn -B -q -ntp -Dstyle.color=never org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy \
      -Dartifact="com.google.protobuf:protoc:$protoc_version:exe:$(platform)" \
      -DoutputDirectory="$PWD/$dir"
  fi
  chmod +x "$file"
  ln -sf "../../$file" .cache/gen/protoc
}

gen_java() {
  need grpc_java_plugin "protobuf-compiler-grpc-java-plugin 1.41.3, as in Debian 12 (apt-get install protobuf-compiler-grpc-java-plugin)"
  install_protoc
  "$bin/buf" generate --template buf.gen.java.yaml
  # The JDK has no javax.annotation.Generated: without it users need no jar
  # for an annotation that nothing reads.
  sed -i.orig '/^@javax\.annotation\.Generated($/,/)$/d' gen/java/io/ackmesh/v1/*Grpc.java
  rm -f gen/java/io/ackmesh/v1/*.orig
}

[[ -x $bin/buf ]] || fail "$bin/buf is missing: run make gen"
for language in "$@"; do
  case $language in
    go | python | java) "gen_$language" ;;
    *) fail "no such language: $language (go, python, java)" ;;
  esac
done
