# platforms.sh - the three platforms: two switches, two devices of 20 Gflop/s under each.
platform() { # LINK UPLINK, speeds of a0 a1 b0 b1
    link=$1 uplink=$2
    shift 2
    echo "<?xml version='1.0'?><!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">"
    echo '<platform version="4.1"><zone id="z" routing="Dijkstra">'
    for h in a0 a1 b0 b1; do
        echo "<host id=\"$h\" speed=\"$1\"/>"
        shift
    done
    echo '<router id="sa"/><router id="sb"/>'
    for pair in a0-sa a1-sa b0-sb b1-sb; do
        echo "<link id=\"$pair\" bandwidth=\"$link\" latency=\"10us\" sharing_policy=\"SPLITDUPLEX\"/>"
    done
    echo "<link id=\"sa-sb\" bandwidth=\"$uplink\" latency=\"10us\" sharing_policy=\"SPLITDUPLEX\"/>"
    for pair in a0-sa a1-sa b0-sb b1-sb sa-sb; do
        echo "<route src=\"${pair%-*}\" dst=\"${pair#*-}\"><link_ctn id=\"$pair\" direction=\"UP\"/></route>"
    done
    echo '</zone></platform>'
}
platform 100Mbps 50Mbps 20Gf 20Gf 20Gf 20Gf >slow.xml
platform 400Mbps 200Mbps 20Gf 20Gf 20Gf 20Gf >fast.xml
platform 200Mbps 200Mbps 40Gf 20Gf 20Gf 20Gf >mixed.xml
