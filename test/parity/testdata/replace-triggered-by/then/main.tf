resource "terraform_data" "a" {
  input = 2
}

resource "terraform_data" "b" {
  input = "b"
  lifecycle {
    replace_triggered_by = [terraform_data.a.input]
  }
}
