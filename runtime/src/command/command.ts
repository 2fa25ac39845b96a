/** What a command is: its words, its flags and what it does. The help is made from it. */
import type { Config, ConfigSources } from '../config.ts'
import { nearest } from '../parsing/suggestion.ts'
import { type Arguments, SWITCHES, thereTwice, UsageError } from './arguments.ts'
import { type Client, openClient } from './client.ts'

export interface CommandCall {
  readonly args: Arguments
  /** Words behind the command's own. */
  readonly words: readonly string[]
  /** Read when it is first asked for. Throws CONFIG `invalid_config` where it is not valid. */
  config(): Promise<Config>
  readonly sources: ConfigSources
  /** Connected to a running server when it is first asked for; as an administrator where no token says as whom. */
  client(as?: 'admin'): Promise<Client>
}

export interface Command {
  /** As it is typed, with what must follow: `tenant create SLUG`. */
  readonly usage: string
  readonly summary: string
  /** Flags besides those of every command, with what they mean. */
  readonly flags?: Readonly<Record<string, string>>
  /** Those of its flags that may be there several times. */
  readonly severalTimes?: readonly string[]
  /** Talks to a server: takes --url, --tenant and --data-dir. */
  readonly remote?: boolean
  /** What exit code 2 says of it, where that is not wrong use: wrong use ends with 1 then. */
  readonly twoMeans?: string
  /** What it gives is printed: text as it is, values as JSON, an `Ending` with its code. Throws where it fails. */
  run(call: CommandCall): Promise<unknown>
}

/** What a command ends with that has something to print, and did not do or find what exit code 0 says. */
export class Ending {
  readonly code: number
  readonly said: unknown
  /** Goes to standard error. */
  readonly reason: string | null

  constructor(code: number, said: unknown, reason: string | null) {
    this.code = code
    this.said = said
    this.reason = reason
  }
}

export const COMMON_FLAGS = {
  help: 'this help',
  'data-dir': 'the data folder; default .sluice',
  config: 'the configuration file; default sluice.yaml',
} as const

export const REMOTE_FLAGS = {
  url: 'the server; default: SLUICE_URL, or the one that runs on the data folder',
  tenant: 'in which tenant; the token of SLUICE_TOKEN names its own',
  user: 'as whom, where no SLUICE_TOKEN is set; default operator',
  group: 'as a member of which group, where no SLUICE_TOKEN is set; default svc-developers',
  json: 'the server’s answer as JSON',
} as const

/**
 * What a command does not need is not loaded: the schema of the configuration takes longer than most commands do, and
 * one that is told the server and the token does without it.
 */
export function callOf(args: Arguments, words: readonly string[], sources: ConfigSources): CommandCall {
  let read: Promise<Config> | null = null
  let client: Promise<Client> | null = null
  const config = () => {
    read ??= import('../config.ts').then(({ loadConfig }) => loadConfig(sources))
    return read
  }
  return {
    args,
    words,
    sources,
    config,
    client(as) {
      client ??= openClient(args, config, as)
      return client
    },
  }
}

/** The word at that place, or a usage error that names it. */
export function word({ words }: CommandCall, index: number, what: string): string {
  const found = words[index]
  if (found === undefined || found === '') throw new UsageError(`${what} is missing`)
  return found
}

/** What is said of something removed; with `--json` null, as the server's answer is empty. */
export const gone = ({ args }: CommandCall, said: string): string => (args.flags['json'] ? 'null' : said)

/** A word as a segment of a path. */
export const segment = (call: CommandCall, index: number, what: string): string =>
  encodeURIComponent(word(call, index, what))

/** The command with the most words of the line; null where there is none. */
export function findCommand(
  commands: Readonly<Record<string, Command>>,
  words: readonly string[],
): { readonly name: string; readonly command: Command; readonly rest: readonly string[] } | null {
  for (const count of [2, 1]) {
    const name = words.slice(0, count).join(' ')
    const command = Object.hasOwn(commands, name) ? commands[name] : undefined
    if (command && words.length >= count) return { name, command, rest: words.slice(count) }
  }
  return null
}

/** Commands whose name begins with the words. */
export function commandsUnder(commands: Readonly<Record<string, Command>>, words: readonly string[]): Command[] {
  const prefix = words.join(' ')
  return Object.entries(commands)
    .filter(([name]) => prefix === '' || name === prefix || name.startsWith(`${prefix} `))
    .map(([, command]) => command)
}

/** Commands that have the word behind their group's: `snapshots` is `product snapshots`. */
export function commandsCalled(commands: Readonly<Record<string, Command>>, last: string | undefined): Command[] {
  const found = Object.entries(commands).filter(([name]) => name.split(' ')[1] === last && last !== undefined)
  return found.map(([, command]) => command)
}

/** The command that was probably meant: of those with a name alike, by as many of the words as it has; null: none is. */
export function meantCommand(commands: Readonly<Record<string, Command>>, words: readonly string[]): string | null {
  const names = Object.keys(commands)
  const [first = '', second = ''] = words
  const under = names.filter((name) => second !== '' && name.startsWith(`${first} ${second}`))
  if (under.length === 1) return under[0] as string
  for (const count of [2, 1]) {
    const own = names.filter((name) => name.split(' ').length === count)
    const typed = words.slice(0, count).join(' ')
    const swapped = count === 2 && second !== '' ? nearest(`${second} ${first}`, own) : undefined
    const close = words.length >= count ? (nearest(typed, own) ?? swapped) : undefined
    if (close !== undefined) return close
  }
  const groups = new Set(names.map((name) => name.split(' ')[0] as string))
  // `connection sync` is `sync`.
  if (groups.has(first)) return names.includes(second) ? second : null
  return nearest(first, groups) ?? null
}

export function helpOf(command: Command): string {
  const flags = { ...command.flags, ...(command.remote ? REMOTE_FLAGS : {}), ...COMMON_FLAGS }
  const width = Math.max(...Object.keys(flags).map((name) => name.length)) + 4
  const lines = Object.entries(flags).map(([name, text]) => `  ${`--${name}`.padEnd(width)}${text}`)
  const codes =
    command.twoMeans === undefined ? [] : ['', `Exit codes: 0 done, 1 failed or wrong use, 2 ${command.twoMeans}.`]
  return [`sluice ${command.usage}`, `  ${command.summary}`, '', ...lines, ...codes].join('\n')
}

export function overview(commands: readonly Command[]): string {
  const width = Math.min(56, Math.max(...commands.map(({ usage }) => usage.length)) + 2)
  const lines = commands.map(({ usage, summary }) =>
    usage.length < width
      ? `  sluice ${usage.padEnd(width)}${summary}`
      : `  sluice ${usage}\n${' '.repeat(width + 9)}${summary}`,
  )
  return [
    ...lines,
    '',
    'sluice help COMMAND tells more. Exit codes: 0 done, 1 failed, 2 wrong use, where a command says no other.',
  ].join('\n')
}

/** Refuses flags that the command does not know, and says what was probably meant; and flags that lack their value. */
export function checkFlags(command: Command, args: Arguments, configFlags: readonly string[]): void {
  const known = [
    ...Object.keys(command.flags ?? {}),
    ...(command.remote ? Object.keys(REMOTE_FLAGS) : []),
    ...Object.keys(COMMON_FLAGS),
    ...configFlags,
  ]
  const { withoutValue = [], repeated = {} } = args
  for (const name of [...Object.keys(args.flags), ...withoutValue]) {
    if (known.includes(name) || name.includes('.')) continue
    const close = nearest(name, known) ?? known.find((flag) => flag.startsWith(name.slice(0, 3)))
    throw new UsageError(`--${name} is not known${close ? `; did you mean --${close}?` : ''}`)
  }
  const twice = Object.keys(repeated).find((name) => command.severalTimes?.includes(name) !== true)
  if (twice !== undefined) throw thereTwice(twice)
  const [cut] = withoutValue
  if (cut !== undefined)
    throw new UsageError(`--${cut} needs a value; one that begins with -- is written --${cut}=VALUE`)
}

/** Refuses words that the command does nothing with: `query SELECT 1` is a statement that the shell took apart. */
export function checkWords({ usage }: Command, name: string, rest: readonly string[]): void {
  const extra = rest[wordsOf(usage, name)]
  if (extra === undefined) return
  throw new UsageError(`"${extra}" is a word too many; what holds blanks belongs in quotes`)
}

/**
 * How many words may stand behind the command's own: those of its usage that are no flags and no values of flags. Any number
 * where one of them has dots behind it.
 */
export function wordsOf(usage: string, name: string): number {
  const tokens = usage.slice(name.length).replaceAll(/[[\]]/g, '').split(' ').filter(Boolean)
  let count = 0
  for (let index = 0; index < tokens.length; index += 1) {
    const token = tokens[index] as string
    if (token.endsWith('...')) return Number.POSITIVE_INFINITY
    if (!token.startsWith('--')) count += token === '|' ? 0 : 1
    else if (!SWITCHES.includes(token.slice(2)) && tokens[index + 1] !== '|') index += 1
  }
  return count
}
