resource "terraform_data" "a" {
  triggers_replace = 1
  lifecycle {
    prevent_destroy = true
  }
}
