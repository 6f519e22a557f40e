printf '{"magic":"OpenTofu-External-Encryption-Method","version":1}\n'
sed 's/.*"payload":"\([^"]*\)".*/\1/' | tr A-Za-z N-ZA-Mn-za-m | sed 's/.*/{"payload":"&"}/'
