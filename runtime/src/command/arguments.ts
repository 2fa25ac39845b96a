/** Words and flags of a command line: `--name value`, `--name=value`, or `--name` alone. Behind `--` all are words. */
export interface Arguments {
  readonly words: readonly string[]
  readonly flags: Readonly<Record<string, string>>
  /** Flags that stand without a value and are no switches: misspelt, or cut off. */
  readonly withoutValue?: readonly string[]
  /** All values of flags that are there more than once; `flags` has the first. */
  readonly repeated?: Readonly<Record<string, readonly string[]>>
}

/** Flags that take no value. */
export const SWITCHES: readonly string[] = [
  'help',
  'json',
  'allow-unproved',
  'connector',
  'no-wait',
  'no-schedule',
  'follow',
  'grantable',
  'explain',
  'check',
  'yes',
  'prune',
  'yes-prune',
  'up',
  'down',
  'columns',
  'no-guess',
  'known-classes',
  'odcs',
  'once',
  'expire-history',
  'accept-differences',
]

export function parseArguments(argv: readonly string[]): Arguments {
  const words: string[] = []
  const flags: Record<string, string> = {}
  const withoutValue: string[] = []
  const repeated: Record<string, string[]> = {}
  const put = (name: string, value: string): void => {
    if (!Object.hasOwn(flags, name)) flags[name] = value
    else if (SWITCHES.includes(name)) throw thereTwice(name)
    else if (Object.hasOwn(repeated, name)) repeated[name]?.push(value)
    else repeated[name] = [flags[name] as string, value]
  }
  for (let index = 0; index < argv.length; index += 1) {
    const argument = argv[index] === '-h' ? '--help' : (argv[index] as string)
    if (argument === '--') return { words: [...words, ...argv.slice(index + 1)], flags, withoutValue, repeated }
    if (!argument.startsWith('--')) {
      words.push(argument)
      continue
    }
    const [name = '', inline] = splitOnce(argument.slice(2))
    const next = argv[index + 1]
    if (SWITCHES.includes(name)) {
      if (isOn(name, inline)) put(name, 'true')
    } else if (inline !== undefined) put(name, inline)
    else if (next === undefined || next.startsWith('--')) withoutValue.push(name)
    else {
      put(name, next)
      index += 1
    }
  }
  return { words, flags, withoutValue, repeated }
}

function isOn(name: string, value = 'true'): boolean {
  if (value === 'true' || value === 'false') return value === 'true'
  throw new UsageError(`--${name} takes no value`)
}

function splitOnce(text: string): [string, string?] {
  const equals = text.indexOf('=')
  return equals < 0 ? [text] : [text.slice(0, equals), text.slice(equals + 1)]
}

/** Wrong use of a command: printed without a stack, with the usage. */
export class UsageError extends Error {
  override readonly name = 'UsageError'
}

/** Of a flag whose command takes it once. */
export function thereTwice(name: string): UsageError {
  return new UsageError(`--${name} is there twice; several values are one list: a,b`)
}

/** Every value of a flag that may be there several times; none without it. */
export function everyValue({ flags, repeated = {} }: Arguments, flag: string): readonly string[] {
  const first = flags[flag]
  return Object.hasOwn(repeated, flag) ? (repeated[flag] ?? []) : first === undefined ? [] : [first]
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
