removed {
  from = terraform_data.a
}

output "o" {
  value = 1
}
