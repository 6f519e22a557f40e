resource "terraform_data" "a" {
  input = 1
  lifecycle {
    destroy = false
  }
}
