{
  description = "yuba deploys groups of NixOS nodes to Kubernetes";

  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixos-unstable";

  outputs =
    { self, nixpkgs }:
    let
      eachSystem =
        systems: f: nixpkgs.lib.genAttrs systems (system: f nixpkgs.legacyPackages.${system});
      linux = [
        "x86_64-linux"
        "aarch64-linux"
      ];
    in
    {
      packages = eachSystem linux (pkgs: {
        default = pkgs.callPackage ./package.nix { };
      });

      nixosModules = import ./modules;

      # yuba.lib.x86_64-linux.deploy { ... }, see docs/nix.md.
      lib = eachSystem linux (pkgs: import ./lib.nix { inherit pkgs; });

      checks = eachSystem [ "x86_64-linux" ] (
        pkgs:
        {
          package = self.packages.x86_64-linux.default;
        }
        // import ./tests { inherit pkgs; }
      );
    };
}
