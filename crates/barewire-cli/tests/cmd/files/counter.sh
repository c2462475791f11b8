# A server that counts from 41, as the one in replay.wire did, adds wrongly, and has another time.
read -r line
echo '{"jsonrpc":"2.0","id":1,"result":{"count":41,"time":"10:00"}}'
read -r line
echo '{"jsonrpc":"2.0","id":2,"result":{"count":44}}'
read -r line
