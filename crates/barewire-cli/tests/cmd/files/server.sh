# Answers one request: `add` with a result, `fail` with an error, everything else with a banner and no answer.
read -r request
case $request in
    *'"add"'*) echo '{"jsonrpc":"2.0","id":1,"result":{"sum": 42, "exact": 42.0}}' ;;
    *'"fail"'*) echo '{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"Invalid params","data":["b"]}}' ;;
    *) echo 'Server listening on stdio...' ;;
esac
