output "regions" {
  value = { for k, m in module.m : k => m.region }
}
