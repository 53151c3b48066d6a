#!/usr/bin/env bash
# rocketmq4.sh - a real Apache RocketMQ 4.9 for tests: a name server and a broker on 127.0.0.1, from Maven Central.
# Needs only bash, coreutils, util-linux, Linux /proc, Java >= 17 and Maven.
#
#   rocketmq4.sh install DIR              jars into DIR/lib (once; a second call does nothing)
#   rocketmq4.sh start   DIR DATADIR      start what isn't running; return when a message can be written and read
#   rocketmq4.sh stop    DATADIR          stop both (TERM, then KILL)
#   rocketmq4.sh kill9   DATADIR ROLE     kill -9 `broker` or `namesrv` (crash tests); `start` brings it back
#   rocketmq4.sh status  DATADIR
#   rocketmq4.sh mqadmin DIR COMMAND ...  Apache's mqadmin against this name server; fails when the command fails
#   rocketmq4.sh call    PORT CODE JSON   one request of the remoting protocol; prints the answer, fails unless its code is 0
#
# Settings: RMQ_VERSION (4.9.7), RMQ_NS_PORT (29876), RMQ_BROKER_PORT (30911; P-2 and P+1 are used too),
# RMQ_BROKER_NAME (broker-a), RMQ_BROKER_HEAP (512m), RMQ_START_TIMEOUT (90 s), RMQ_JVM_OPTS (what starts soonest; -XX:+UseG1GC to measure), RMQ_BROKER_EXTRA (lines added to broker.conf), JAVA.
set -euo pipefail

VERSION=${RMQ_VERSION:-4.9.7}
NS_PORT=${RMQ_NS_PORT:-29876}
BROKER_PORT=${RMQ_BROKER_PORT:-30911}
BROKER_NAME=${RMQ_BROKER_NAME:-broker-a}
HEAP=${RMQ_BROKER_HEAP:-512m}
TIMEOUT=${RMQ_START_TIMEOUT:-90}
JAVA=${JAVA:-java}
PLUGIN=org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies

die() { echo "rocketmq4: $*" >&2; exit 1; }
say() { echo "rocketmq4: $*" >&2; }

need() {
  local what=$1
  case $1 in mvn) what="Maven 3.8 or newer (apt-get install maven)" ;; *java) what="Java 17 or newer (apt-get install openjdk-17-jre-headless)" ;; esac
  command -v "$1" >/dev/null 2>&1 || die "$1 is missing: install $what"
}

# JDK 16 and later refuse the reflection by which RocketMQ 4 unmaps files: without these the broker
# can't delete a file, and does not start again after a crash.
java_flags() {
  local v
  v=$("$JAVA" -version 2>&1 | sed -n '1s/.*version "\(1\.\)\{0,1\}\([0-9]*\).*/\2/p') || true
  [ -n "$v" ] || die "can't tell the version of $JAVA"
  if [ "$v" -ge 9 ]; then
    echo "--add-opens=java.base/java.nio=ALL-UNNAMED --add-opens=java.base/sun.nio.ch=ALL-UNNAMED --add-opens=java.base/jdk.internal.ref=ALL-UNNAMED"
  fi
}

logback() { # file level
  cat >"$1" <<X
<configuration>
  <appender name="OUT" class="ch.qos.logback.core.ConsoleAppender">
    <encoder><pattern>%d{yyyy-MM-dd HH:mm:ss.SSS} %-5p %c{1} [%t] %m%n</pattern></encoder>
  </appender>
  <logger name="RocketmqWaterMark" level="OFF"/>
  <logger name="RocketmqStats" level="OFF"/>
  <logger name="RocketmqTransaction" level="ERROR"/>
  <logger name="RocketmqRemoting" level="WARN"/>
  <root level="$2"><appender-ref ref="OUT"/></root>
</configuration>
X
}

cmd_install() {
  [ $# = 1 ] || die "usage: install DIR"
  need mvn; need "$JAVA"; need flock
  mkdir -p "$1"
  local dir tmp i; dir=$(cd "$1" && pwd)
  exec 8>"$dir/.lock"; flock 8
  if [ -f "$dir/.installed-$VERSION" ] && (cd "$dir/lib" && sha256sum --quiet -c "$dir/.installed-$VERSION" >/dev/null 2>&1); then
    say "$VERSION is already in $dir"; return
  fi
  tmp=$dir/.install.tmp; rm -rf "$tmp"; mkdir -p "$tmp"
  cat >"$tmp/pom.xml" <<X
<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>local</groupId><artifactId>rocketmq4</artifactId><version>1</version><packaging>pom</packaging>
<dependencies>$(for a in namesrv broker tools; do echo "<dependency><groupId>org.apache.rocketmq</groupId><artifactId>rocketmq-$a</artifactId><version>$VERSION</version></dependency>"; done)</dependencies>
</project>
X
  for i in 1 2 3; do
    if mvn -B -q -f "$tmp/pom.xml" ${RMQ_MAVEN_REPO:+-Dmaven.repo.local=$RMQ_MAVEN_REPO} "$PLUGIN" -DincludeScope=runtime -DoutputDirectory="$tmp/lib" >"$tmp/mvn.log" 2>&1; then break; fi
    if [ $i = 3 ] || grep -q 'Could not find artifact' "$tmp/mvn.log"; then tail -20 "$tmp/mvn.log" >&2; die "Maven could not get RocketMQ $VERSION"; fi
    say "Maven failed, once more"; sleep $((i * 3))
  done
  for i in namesrv broker tools; do [ -f "$tmp/lib/rocketmq-$i-$VERSION.jar" ] || die "rocketmq-$i-$VERSION.jar is missing"; done
  rm -rf "$dir/lib" "$dir"/.installed-*; mv "$tmp/lib" "$dir/lib"
  mkdir -p "$dir/conf"
  logback "$dir/conf/logback_namesrv.xml" INFO; logback "$dir/conf/logback_broker.xml" INFO; logback "$dir/conf/logback_tools.xml" OFF
  (cd "$dir/lib" && sha256sum ./*.jar) >"$dir/.installed-$VERSION"
  rm -rf "$tmp"
  say "RocketMQ $VERSION: $(ls "$dir/lib" | wc -l) jars, $(du -sh "$dir/lib" | cut -f1), in $dir/lib"
}

# One remoting request, JSON header: ask PORT CODE EXTFIELDS [BODY]; prints the answer without its NULs.
ask() {
  local h b=${4:-} n
  h="{\"code\":$2,\"language\":\"JAVA\",\"version\":401,\"opaque\":1,\"flag\":0,\"extFields\":$3}"
  (
    exec 3<>"/dev/tcp/127.0.0.1/$1" || exit 1
    printf "$(printf '%08x%08x' $((4 + ${#h} + ${#b})) ${#h} | sed 's/../\\x&/g')" >&3
    printf '%s%s' "$h" "$b" >&3
    n=$(timeout 3 head -c 4 <&3 | od -An -tu1 | awk 'NF==4 {print (($1*256+$2)*256+$3)*256+$4}')
    [ -n "$n" ] || exit 1
    timeout 3 head -c "$n" <&3 | tr -d '\000'
  ) 2>/dev/null
}

listening() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

probe_namesrv() { [[ $(ask "$NS_PORT" 206 '{}' || true) == *'"code":0'* ]]; }

# The name server gives this broker as the route, and the broker stores a message and counts it
# (in BenchmarkTest, a topic every broker makes for itself; SELF_TEST_TOPIC refuses messages).
probe_broker() {
  local a
  a=$(ask "$NS_PORT" 105 '{"topic":"BenchmarkTest"}' || true); [[ $a == *"127.0.0.1:$BROKER_PORT"* ]] || return 1
  a=$(ask "$BROKER_PORT" 310 "{\"a\":\"PID_PROBE\",\"b\":\"BenchmarkTest\",\"c\":\"TBW102\",\"d\":\"4\",\"e\":\"0\",\"f\":\"0\",\"g\":\"$(date +%s)000\",\"h\":\"0\",\"i\":\"\",\"j\":\"0\",\"k\":\"false\",\"l\":\"0\",\"m\":\"false\"}" probe || true)
  [[ $a == *'"code":0'* ]] || return 1
  a=$(ask "$BROKER_PORT" 30 '{"topic":"BenchmarkTest","queueId":"0"}' || true)
  [[ $a == *'"offset":"'[1-9]* ]]
}

pid_of() { # DATADIR ROLE: its pid when it is alive and ours
  local p
  p=$(cat "$1/$2.pid" 2>/dev/null) || return 1
  [ -n "$p" ] && tr '\0' '\n' <"/proc/$p/cmdline" 2>/dev/null | grep -qxF -- "-Drmq4.id=$1#$2" && echo "$p"
}

# A killed process has lost its command line, and its first thread, before its sockets: it is gone with its last thread.
gone() {
  [ -d "/proc/$1" ] || return 0
  grep -q '^State:[[:space:]]*Z' "/proc/$1/status" 2>/dev/null && [ "$(ls "/proc/$1/task" 2>/dev/null | wc -l)" -le 1 ]
}

launch() { # DIR DATADIR ROLE MAINCLASS JVMFLAGS...
  local dir=$1 data=$2 role=$3 main=$4; shift 4
  [ ! -s "$data/$role.log" ] || mv "$data/$role.log" "$data/$role.log.1"
  # without tls.server.mode=disabled each start makes RSA keys for a self-signed certificate, for seconds
  # fds 8 and 9 are locks: the JVM must not inherit them
  env -u NAMESRV_ADDR ROCKETMQ_HOME="$dir" nohup "$JAVA" "-Drmq4.id=$data#$role" "-Duser.home=$data/home" -Dtls.server.mode=disabled $(java_flags) ${RMQ_JVM_OPTS--XX:+UseSerialGC -XX:TieredStopAtLevel=1} "$@" \
    -cp "$dir/lib/*" "$main" -c "$data/$role.conf" >"$data/$role.log" 2>&1 </dev/null 8>&- 9>&- &
  echo $! >"$data/$role.pid"
  LAUNCHED+=("$role")
}

LAUNCHED=()
undo() { # a start that failed leaves nothing running that it began
  local rc=$? r
  [ $rc = 0 ] || for r in ${LAUNCHED[@]+"${LAUNCHED[@]}"}; do kill -9 "$(cat "$UNDO/$r.pid")" 2>/dev/null || true; rm -f "$UNDO/$r.pid"; done
  exit $rc
}

await() { # DATADIR ROLE PROBE
  local t0=$SECONDS p; p=$(cat "$1/$2.pid")
  until "$3"; do
    kill -0 "$p" 2>/dev/null || { tail -40 "$1/$2.log" >&2; die "$2 ended while starting; the end of $1/$2.log is above"; }
    [ $((SECONDS - t0)) -lt "$TIMEOUT" ] || { tail -40 "$1/$2.log" >&2; die "$2 not ready after $TIMEOUT s; the end of $1/$2.log is above"; }
    sleep 0.2
  done
}

cmd_start() {
  [ $# = 2 ] || die "usage: start DIR DATADIR"
  need "$JAVA"; need flock
  [ -f "$1/.installed-$VERSION" ] || die "RocketMQ $VERSION is not in $1: run install first"
  mkdir -p "$2/home" "$2/store" "$2/kv"
  local dir data p; dir=$(cd "$1" && pwd); data=$(cd "$2" && pwd)
  exec 9>"$data/.lock"; flock 9
  local t0; t0=$(date +%s%N)
  pid_of "$data" namesrv >/dev/null || ! listening "$NS_PORT" || die "port $NS_PORT is already used by another process"
  pid_of "$data" broker >/dev/null || for p in $((BROKER_PORT - 2)) "$BROKER_PORT" $((BROKER_PORT + 1)); do
    ! listening "$p" || die "port $p is already used by another process"
  done
  UNDO=$data; trap undo EXIT
  if ! pid_of "$data" namesrv >/dev/null; then
    printf 'listenPort=%s\nkvConfigPath=%s\nconfigStorePath=%s\n' "$NS_PORT" "$data/kv/kvConfig.json" "$data/kv/namesrv.properties" >"$data/namesrv.conf"
    launch "$dir" "$data" namesrv org.apache.rocketmq.namesrv.NamesrvStartup -Xms64m -Xmx256m
  fi
  # before the broker: one that finds no name server registers only at its next turn (10 s)
  await "$data" namesrv probe_namesrv
  if ! pid_of "$data" broker >/dev/null; then
    cat >"$data/broker.conf" <<X
brokerClusterName=DefaultCluster
brokerName=$BROKER_NAME
brokerId=0
brokerRole=ASYNC_MASTER
flushDiskType=ASYNC_FLUSH
brokerIP1=127.0.0.1
brokerIP2=127.0.0.1
namesrvAddr=127.0.0.1:$NS_PORT
listenPort=$BROKER_PORT
haListenPort=$((BROKER_PORT + 1))
storePathRootDir=$data/store
storePathCommitLog=$data/store/commitlog
mappedFileSizeCommitLog=67108864
mappedFileSizeConsumeQueue=600000
maxHashSlotNum=100000
maxIndexNum=400000
autoCreateTopicEnable=true
autoCreateSubscriptionGroup=true
diskMaxUsedSpaceRatio=95
registerNameServerPeriod=10000
waitTimeMillsInSendQueue=5000
osPageCacheBusyTimeOutMills=5000
${RMQ_BROKER_EXTRA:-}
X
    launch "$dir" "$data" broker org.apache.rocketmq.broker.BrokerStartup -Xms128m "-Xmx$HEAP" -XX:MaxDirectMemorySize=512m
  fi
  await "$data" broker probe_broker
  say "ready in $((($(date +%s%N) - t0) / 1000000)) ms: name server 127.0.0.1:$NS_PORT (pid $(pid_of "$data" namesrv)), broker 127.0.0.1:$BROKER_PORT (pid $(pid_of "$data" broker))"
}

end() { # DATADIR ROLE
  local p i
  p=$(pid_of "$1" "$2") || { rm -f "$1/$2.pid"; return 0; }
  kill "$p" 2>/dev/null || true
  for i in $(seq 1 300); do
    pid_of "$1" "$2" >/dev/null || { rm -f "$1/$2.pid"; say "$2 stopped"; return 0; }
    sleep 0.1
  done
  say "$2 did not stop in 30 s: killing it"; kill -9 "$p" 2>/dev/null || true; sleep 0.5; rm -f "$1/$2.pid"
}

cmd_stop() {
  [ $# = 1 ] || die "usage: stop DATADIR"
  [ -d "$1" ] || { say "nothing to stop"; return 0; }
  local data; data=$(cd "$1" && pwd)
  exec 9>"$data/.lock"; flock 9
  end "$data" broker; end "$data" namesrv
}

cmd_kill9() {
  [ $# = 2 ] || die "usage: kill9 DATADIR broker|namesrv"
  local data p; data=$(cd "$1" && pwd)
  p=$(pid_of "$data" "$2") || die "$2 is not running"
  kill -9 "$p"; until gone "$p"; do sleep 0.02; done
}

cmd_status() {
  [ $# = 1 ] || die "usage: status DATADIR"
  local data r p rc=0; data=$(cd "$1" && pwd)
  for r in namesrv broker; do
    if p=$(pid_of "$data" $r); then echo "$r running pid $p rss $(awk '/VmRSS/ {print int($2/1024)}' "/proc/$p/status") MiB ready $(probe_$r && echo yes || echo no)"; else echo "$r stopped"; rc=1; fi
  done
  return $rc
}

cmd_mqadmin() {
  [ $# -ge 2 ] || die "usage: mqadmin DIR COMMAND ..."
  local dir out; dir=$(cd "$1" && pwd); shift
  out=$(env -u NAMESRV_ADDR ROCKETMQ_HOME="$dir" "$JAVA" $(java_flags) -Xmx128m -XX:TieredStopAtLevel=1 -XX:+UseSerialGC "-Duser.home=$dir/home" \
    "-Drocketmq.namesrv.addr=127.0.0.1:$NS_PORT" -cp "$dir/lib/*" org.apache.rocketmq.tools.command.MQAdminStartup "$@" 2>&1) || { printf '%s\n' "$out" >&2; return 1; }
  printf '%s\n' "$out"
  # mqadmin exits 0 whatever happens
  ! grep -qE '^org\.apache\.rocketmq\..*Exception|^Caused by: |^usage: mqadmin|is not exist|command failed' <<<"$out"
}

cmd_call() {
  [ $# = 3 ] || die "usage: call PORT CODE JSON"
  local a
  a=$(ask "$1" "$2" "$3") || die "port $1 gives no answer to request $2"
  printf '%s\n' "$a"
  [[ $a =~ \"code\":0[,}] ]] || die "request $2 was refused: $a"
}

c=${1:-}; [ $# -gt 0 ] && shift
case $c in
install | start | stop | kill9 | status | mqadmin | call) "cmd_$c" "$@" ;;
*) sed -n '2,15p' "$0" | sed 's/^# \{0,1\}//'; exit 2 ;;
esac
