resource "terraform_data" "a" {
  count = 2
  input = "x${count.index}"
  lifecycle {
    precondition {
      condition     = count.index < 5
      error_message = "Too many."
    }
    postcondition {
      condition     = startswith(self.output, "x")
      error_message = "Not an x."
    }
  }
}

output "o" {
  value = terraform_data.a[0].output
  precondition {
    condition     = terraform_data.a[0].output != ""
    error_message = "Empty."
  }
}

check "c" {
  assert {
    condition     = terraform_data.a[1].output == "x1"
    error_message = "Not x1."
  }
}
