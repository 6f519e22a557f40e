resource "terraform_data" "a" {
  triggers_replace = { k = "v" }
}

moved {
  from = null_resource.a
  to   = terraform_data.a
}
