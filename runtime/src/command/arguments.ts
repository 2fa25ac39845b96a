/** Words and flags of a command line: `--name value`, `--name=value`, or `--name` alone. */
export interface Arguments {
  readonly words: readonly string[]
  readonly flags: Readonly<Record<string, string>>
}

/** Flags that take no value. */
const SWITCHES = [
  'help',
  'dry-run',
  'json',
  'allow-unproved',
  'connector',
  'no-wait',
  'no-schedule',
  'follow',
  'grantable',
  'explain',
  'check',
]

export function parseArguments(argv: readonly string[]): Arguments {
  const words: string[] = []
  const flags: Record<string, string> = {}
  for (let index = 0; index < argv.length; index += 1) {
    const argument = argv[index] === '-h' ? '--help' : (argv[index] as string)
    if (!argument.startsWith('--')) {
      words.push(argument)
      continue
    }
    const [name = '', inline] = splitOnce(argument.slice(2))
    if (inline !== undefined) flags[name] = inline
    else if (SWITCHES.includes(name)) flags[name] = 'true'
    else {
      index += 1
      const value = argv[index]
      if (value === undefined) throw new UsageError(`--${name} needs a value`)
      flags[name] = value
    }
  }
  return { words, flags }
}

function splitOnce(text: string): [string, string?] {
  const equals = text.indexOf('=')
  return equals < 0 ? [text] : [text.slice(0, equals), text.slice(equals + 1)]
}

/** Wrong use of a command: printed without a stack, with the usage. */
export class UsageError extends Error {
  override readonly name = 'UsageError'
}

/** A flag that names several: `--lower email,city`. Empty without it. */
export function listed(args: Arguments, flag: string): readonly string[] {
  return (args.flags[flag] ?? '')
    .split(',')
    .map((name) => name.trim())
    .filter((name) => name !== '')
}

export function required(args: Arguments, flag: string): string {
  const value = args.flags[flag]
  if (value === undefined) throw new UsageError(`--${flag} is missing`)
  return value
}
