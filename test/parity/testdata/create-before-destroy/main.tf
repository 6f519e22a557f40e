resource "terraform_data" "a" {
  triggers_replace = 1
}

resource "terraform_data" "b" {
  triggers_replace = terraform_data.a.id
  lifecycle {
    create_before_destroy = true
  }
}
