# As much of nixpkgs' lib as yuba's Nix code uses, with the same meaning: above all modules,
# whose definitions have conditions and priorities.
let
  inherit (builtins)
    foldl'
    functionArgs
    isAttrs
    isBool
    isFunction
    isInt
    isList
    isPath
    length
    match
    removeAttrs
    replaceStrings
    stringLength
    substring
    ;
in
rec {
  inherit (builtins)
    all
    any
    attrNames
    attrValues
    concatLists
    concatMap
    concatStringsSep
    elem
    filter
    head
    isString
    listToAttrs
    mapAttrs
    ;

  # Lists, attribute sets and strings.
  optional = cond: x: if cond then [ x ] else [ ];
  optionals = cond: xs: if cond then xs else [ ];
  optionalAttrs = cond: set: if cond then set else { };
  optionalString = cond: s: if cond then s else "";
  unique = foldl' (xs: x: if elem x xs then xs else xs ++ [ x ]) [ ];
  last = xs: builtins.elemAt xs (length xs - 1);
  nameValuePair = name: value: { inherit name value; };
  genAttrs = names: f: listToAttrs (map (name: nameValuePair name (f name)) names);
  filterAttrs = pred: set: removeAttrs set (filter (n: !pred n set.${n}) (attrNames set));
  mapAttrsToList = f: set: map (name: f name set.${name}) (attrNames set);
  mapAttrs' = f: set: listToAttrs (mapAttrsToList f set);
  hasPrefix = prefix: s: substring 0 (stringLength prefix) s == prefix;
  hasSuffix =
    suffix: s:
    stringLength s >= stringLength suffix
    && substring (stringLength s - stringLength suffix) (stringLength suffix) s == suffix;
  splitString = sep: s: filter isString (builtins.split (replaceStrings [ "." ] [ "\\." ] sep) s);
  toInt = builtins.fromJSON;
  escapeShellArg =
    arg:
    let
      s = toString arg;
    in
    if match "[[:alnum:],._+:@%/-]+" s != null then s else "'${replaceStrings [ "'" ] [ "'\\''" ] s}'";
  makeBinPath = packages: concatStringsSep ":" (map (p: "${p}/bin") packages);
  getExe' = package: name: "${package}/bin/${name}";
  id = x: x;
  platforms.linux = [
    "x86_64-linux"
    "aarch64-linux"
  ];

  cleanSourceWith =
    {
      src,
      filter ? (_: _: true),
      name ? "source",
    }:
    builtins.path {
      path = src;
      inherit filter name;
    };

  # Definitions.
  mkOption = attrs: attrs // { _type = "option"; };
  mkEnableOption =
    what:
    mkOption {
      type = types.bool;
      default = false;
      example = true;
      description = "Whether to enable ${what}.";
    };
  mkIf = condition: content: {
    _type = "if";
    inherit condition content;
  };
  mkMerge = contents: {
    _type = "merge";
    inherit contents;
  };
  mkOverride = priority: content: {
    _type = "override";
    inherit priority content;
  };
  mkDefault = mkOverride 1000;
  mkForce = mkOverride 50;
  literalExpression = text: {
    _type = "literalExpression";
    inherit text;
  };
  literalMD = literalExpression;

  typeOf' = v: if isAttrs v then v._type or "" else "";

  # A definition of an attribute set as plain sets, with conditions and priorities pushed down to
  # the attributes: names must not depend on conditions, which may depend on other options.
  pushDown =
    v:
    let
      t = typeOf' v;
    in
    if t == "merge" then
      concatMap pushDown v.contents
    else if t == "if" then
      map (mapAttrs (_: mkIf v.condition)) (pushDown v.content)
    else if t == "override" then
      map (mapAttrs (_: mkOverride v.priority)) (pushDown v.content)
    else
      [ v ];

  # A definition of an option as values with priorities.
  discharge =
    priority: v:
    let
      t = typeOf' v;
    in
    if t == "merge" then
      concatMap (discharge priority) v.contents
    else if t == "if" then
      optionals v.condition (discharge priority v.content)
    else if t == "override" then
      discharge v.priority v.content
    else
      [ { inherit priority v; } ];

  # The value of an option of which there are these definitions.
  mergeOption =
    path: type: definitions:
    let
      all' = concatMap (discharge 100) definitions;
      best = foldl' (p: d: if d.priority < p then d.priority else p) 9999 all';
      values = map (d: d.v) (filter (d: d.priority == best) all');
      wrong = filter (v: !type.check v) values;
    in
    if values == [ ] then
      throw "The option `${showPath path}' is used but not defined."
    else if wrong != [ ] then
      throw "A definition for option `${showPath path}' is not of type `${type.name}': ${builtins.toJSON (head wrong)}"
    else
      type.merge path values;

  showPath = concatStringsSep ".";

  same =
    path: values:
    if all (v: v == head values) values then
      head values
    else
      throw "The option `${showPath path}' has conflicting definition values.";

  types = rec {
    scalar = name: check: {
      inherit name check;
      merge = same;
    };
    bool = scalar "boolean" isBool;
    str = scalar "string" isString;
    int = scalar "signed integer" isInt;
    port = ints.between 0 65535;
    path = scalar "path" (v: (isPath v || isString v || v ? outPath) && hasPrefix "/" (toString v));
    package = scalar "package" (v: v ? outPath);
    unspecified = scalar "unspecified value" (_: true);
    strMatching = re: scalar "string matching the pattern ${re}" (v: isString v && match re v != null);
    ints = {
      between = from: to: scalar "integer between ${toString from} and ${toString to}" (v: isInt v && v >= from && v <= to);
      positive = scalar "positive integer" (v: isInt v && v > 0);
    };
    lines = str // {
      merge = _: concatStringsSep "\n";
    };
    nullOr = t: {
      name = "null or ${t.name}";
      check = v: v == null || t.check v;
      merge = path: values: if all (v: v == null) values then null else t.merge path (filter (v: v != null) values);
    };
    either = a: b: {
      name = "${a.name} or ${b.name}";
      check = v: a.check v || b.check v;
      merge = path: values: (if all a.check values then a else b).merge path values;
    };
    oneOf = ts: foldl' either (head ts) (builtins.tail ts);
    listOf = t: {
      name = "list of ${t.name}";
      check = isList;
      merge = path: values: map (v: mergeOption (path ++ [ "*" ]) t [ v ]) (concatLists values);
    };
    attrsOf = t: {
      name = "attribute set of ${t.name}";
      check = isAttrs;
      merge =
        path: values:
        let
          sets = concatMap pushDown values;
          names = unique (concatMap attrNames sets);
          present = filter (
            n: concatMap (d: if d ? ${n} then discharge 100 d.${n} else [ ]) sets != [ ]
          ) names;
        in
        genAttrs present (n: mergeOption (path ++ [ n ]) t (concatMap (d: optional (d ? ${n}) d.${n}) sets));
    };
    submodule = module: {
      name = "submodule";
      check = v: isAttrs v || isFunction v;
      merge =
        path: values:
        (evalModules {
          modules = [ module ] ++ values;
          prefix = path;
          specialArgs.name = last path;
        }).config;
    };
  };

  isOption = o: typeOf' o == "option";

  evalModules =
    {
      modules,
      specialArgs ? { },
      prefix ? [ ],
    }:
    let
      args = specialArgs // {
        inherit config options;
      };

      load =
        m:
        let
          file = isPath m || (isString m && hasPrefix "/" m);
          m' = if file then import m else m;
          m'' =
            if isFunction m' then m' (args // mapAttrs (n: _: args.${n}) (functionArgs m')) else m';
        in
        {
          key = if file then toString m else null;
          imports = m''.imports or [ ];
          options = m''.options or { };
          config =
            if m'' ? options || m'' ? config then m''.config or { } else removeAttrs m'' [ "imports" ];
        };

      # Each file once, with what it imports before it.
      collect =
        seen: ms:
        foldl' (
          acc: m:
          let
            l = load m;
          in
          if l.key != null && elem l.key acc.keys then
            acc
          else
            let
              inner = collect { inherit (acc) modules; keys = acc.keys ++ optional (l.key != null) l.key; } l.imports;
            in
            {
              inherit (inner) keys;
              modules = inner.modules ++ [ l ];
            }
        ) seen ms;

      loaded = (collect { keys = [ ]; modules = [ ]; } modules).modules;

      mergeOptions =
        path: a: b:
        foldl' (
          acc: n:
          acc
          // {
            ${n} =
              if !(acc ? ${n}) then
                b.${n}
              else if isOption acc.${n} || isOption b.${n} then
                throw "The option `${showPath (path ++ [ n ])}' is declared twice."
              else
                mergeOptions (path ++ [ n ]) acc.${n} b.${n};
          }
        ) a (attrNames b);

      options = foldl' (mergeOptions prefix) { } (map (m: m.options) loaded);

      eval =
        path: opts: defs:
        let
          sets = concatMap pushDown defs;
          at = n: concatMap (d: optional (d ? ${n}) d.${n}) sets;
          unknown = filter (n: !(opts ? ${n})) (concatMap attrNames sets);
        in
        if unknown != [ ] then
          throw "The option `${showPath (path ++ [ (head unknown) ])}' does not exist."
        else
          mapAttrs (
            n: o:
            if isOption o then
              let
                own = if o ? default then [ (mkOverride 1500 o.default) ] else [ ];
              in
              (o.apply or id) (mergeOption (path ++ [ n ]) o.type (own ++ at n))
            else
              eval (path ++ [ n ]) o (at n)
          ) opts;

      config = eval prefix options (map (m: m.config) loaded);
    in
    {
      inherit config options;
      extendModules =
        more:
        evalModules {
          modules = modules ++ more.modules;
          inherit prefix specialArgs;
        };
    };
}
