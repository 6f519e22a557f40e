resource "terraform_data" "a" {
  input = "x"
  lifecycle {
    postcondition {
      condition     = self.output == "y"
      error_message = "It is ${self.output}."
    }
  }
}

resource "terraform_data" "b" {
  input = terraform_data.a.output
}
