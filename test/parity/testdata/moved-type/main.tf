resource "null_resource" "a" {
  triggers = { k = "v" }
}
