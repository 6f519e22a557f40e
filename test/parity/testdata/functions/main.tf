locals {
  m = merge({ a = 1 }, { b = 2 })
}

output "strings" {
  value = [upper("a"), format("%05.2f|%-5s|%q", 3.14159, "x", "y"), join(",", ["a", "b"]), replace("abc", "/b/", "x"), regex("(\\d+)", "a12")[0], trimspace(" x "), substr("hello", 1, 3), title("hello world"), strrev("abc")]
}

output "collections" {
  value = [keys(local.m), values(local.m), lookup(local.m, "z", 0), flatten([[1], [2, [3]]]), distinct([1, 1, 2]), setproduct(["a"], [1, 2]), zipmap(["k"], ["v"]), chunklist([1, 2, 3], 2), range(1, 10, 3), sort(["b", "a"]), slice([1, 2, 3], 0, 2), matchkeys(["a", "b"], ["x", "y"], ["y"])]
}

output "encoding" {
  value = [base64encode("x"), sha256("x"), md5("x"), jsonencode(local.m), csvdecode("a,b\n1,2"), urlencode("a b&c"), base64gzip("") != "", textencodebase64("x", "UTF-16LE"), urldecode("a%20b"), base64decode("eA==")]
}

output "numbers" {
  value = [max(1, 2), min(1, 2), abs(-1), ceil(1.2), floor(1.8), pow(2, 10), log(8, 2), parseint("ff", 16), signum(-4), 1 / 3, 10000000000000000000000, 0.1 + 0.2]
}

output "net" {
  value = [cidrsubnet("10.0.0.0/8", 8, 2), cidrhost("10.0.0.0/8", 5), cidrnetmask("10.0.0.0/8"), cidrsubnets("10.0.0.0/8", 4, 4), cidrcontains("10.0.0.0/8", "10.1.1.1")]
}

output "time" {
  value = [timeadd("2020-01-01T00:00:00Z", "1h") != "", formatdate("DD MMM", "2020-02-03T00:00:00Z"), timecmp("2020-01-01T00:00:00Z", "2021-01-01T00:00:00Z")]
}

output "types" {
  value = [tostring(1), tonumber("1"), tobool("true"), try(tonumber("x"), "no"), can(tonumber("x")), type(local.m) == type({ a = 1 }), issensitive(1), one([1]), coalesce("", "x"), alltrue([true]), anytrue([false])]
}

output "files" {
  value = [file("data.txt"), filesha256("data.txt"), fileexists("nope"), fileset(".", "*.txt"), basename("a/b"), dirname("a/b"), pathexpand("x"), filebase64("data.txt")]
}
