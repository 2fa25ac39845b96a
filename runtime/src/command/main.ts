/** The `sluice` command. Exit codes: 0 done, 1 failed, 2 wrong use; of some commands 2 says something else. */
import { existsSync } from 'node:fs'
import { FURTHER_PROCESS } from '../assembly/further-command.ts'
import type { ConfigSources } from '../config.ts'
import { APPLICATION_KEY_COMMANDS } from './application-key-commands.ts'
import { APPLY_COMMANDS } from './apply-command.ts'
import { type Arguments, parseArguments, UsageError } from './arguments.ts'
import { CLIENT_COMMANDS } from './client-commands.ts'
import {
  type Command,
  callOf,
  checkFlags,
  checkWords,
  commandsCalled,
  commandsUnder,
  Ending,
  findCommand,
  helpOf,
  meantCommand,
  overview,
} from './command.ts'
import { completionCommands } from './completion-command.ts'
import { CONFIG_COMMANDS } from './config-command.ts'
import { CONNECTION_COMMANDS } from './connection-commands.ts'
import { DBT_COMMANDS } from './dbt-command.ts'
import { DEV_COMMANDS } from './dev-command.ts'
import { ERASURE_COMMANDS } from './erasure-commands.ts'
import { EXPORT_ROWS_COMMANDS } from './export-rows-command.ts'
import { hasLeft, inWords, refusedIn } from './failures.ts'
import { GRANT_COMMANDS } from './grant-commands.ts'
import { LAKE_COMMANDS } from './lake-command.ts'
import { LINEAGE_COMMANDS } from './lineage-commands.ts'
import { NOTIFICATION_COMMANDS } from './notification-commands.ts'
import { printOut } from './output.ts'
import { PLUGIN_COMMANDS } from './plugin-commands.ts'
import { PRODUCT_COMMANDS } from './product-commands.ts'
import { QUARANTINE_COMMANDS } from './quarantine-commands.ts'
import { QUERY_COMMANDS } from './query-command.ts'
import { ownVersion } from './release.ts'
import { RUN_COMMANDS } from './run-commands.ts'
import { SERVICE_PASSWORD_COMMANDS } from './service-password-commands.ts'
import { TENANT_COMMANDS } from './tenant-commands.ts'
import { plainLines } from './text-table.ts'
import { TOKEN_COMMANDS } from './token-command.ts'
import { TRAINING_SET_COMMANDS } from './training-set-command.ts'
import { WEBHOOK_COMMANDS } from './webhook-commands.ts'

/** Flags of the configuration; those with a dot (`--auth.audience`) are so everywhere. */
export const CONFIG_FLAGS = ['data-dir', 'port', 'host', 'config', 'allow-unproved']

const WRONG_USE = 2

export const COMMANDS: Readonly<Record<string, Command>> = {
  start: {
    usage: 'start',
    summary: 'run the server, embedded unless sluice.yaml says otherwise',
    flags: {
      port: 'default 8080; 0 picks a free one',
      host: 'default 127.0.0.1',
      'allow-unproved': 'for development: use plugins that no certificate proves',
    },
    run: async (call) => {
      const [config, { runServer }] = await Promise.all([call.config(), import('../main.ts')])
      await runServer(config).catch((error: unknown) => {
        throw refusedIn(config.data_dir, error)
      })
    },
  },
  ...TOKEN_COMMANDS,
  ...TENANT_COMMANDS,
  ...CONNECTION_COMMANDS,
  ...QUARANTINE_COMMANDS,
  ...ERASURE_COMMANDS,
  ...PRODUCT_COMMANDS,
  ...APPLY_COMMANDS,
  ...DEV_COMMANDS,
  ...LINEAGE_COMMANDS,
  ...DBT_COMMANDS,
  ...GRANT_COMMANDS,
  ...APPLICATION_KEY_COMMANDS,
  ...SERVICE_PASSWORD_COMMANDS,
  ...NOTIFICATION_COMMANDS,
  ...WEBHOOK_COMMANDS,
  ...RUN_COMMANDS,
  ...QUERY_COMMANDS,
  ...TRAINING_SET_COMMANDS,
  ...EXPORT_ROWS_COMMANDS,
  ...CLIENT_COMMANDS,
  ...PLUGIN_COMMANDS,
  ...LAKE_COMMANDS,
  ...CONFIG_COMMANDS,
  ...completionCommands(() => COMMANDS),
}

export async function main(argv: readonly string[]): Promise<number> {
  let help = 'sluice help lists the commands.'
  let wrongUse = WRONG_USE
  try {
    if (argv[0] === FURTHER_PROCESS && process.connected) return await (await import('../main.ts')).runFurther()
    if (argv[0] === '--version' || argv[0] === 'version') return await print(ownVersion())
    const args = parseArguments(argv)
    const [first, ...others] = args.words
    if (first === undefined || first === '' || first === 'help') return await print(helpFor(others))
    const found = findCommand(COMMANDS, args.words)
    if (found === null) help = nearHelp(args.words)
    if (found === null || args.flags['help']) return await print(helpFor(args.words))
    help = helpOf(found.command)
    if (found.command.twoMeans !== undefined) wrongUse = 1
    checkFlags(found.command, args, CONFIG_FLAGS)
    checkWords(found.command, found.name, found.rest)
    const result = await found.command.run(callOf(args, found.rest, sourcesOf(args)))
    if (result instanceof Ending) return await end(result)
    return result === undefined ? 0 : await print(inText(result))
  } catch (error) {
    return hasLeft(error) ? 1 : fail(error, help, wrongUse)
  }
}

const inText = (result: unknown): string => (typeof result === 'string' ? result : JSON.stringify(result, null, 2))

async function end({ code, said, reason }: Ending): Promise<number> {
  await print(inText(said))
  if (reason !== null) console.error(`sluice: ${plainLines(reason)}`)
  return code
}

/** The commands around words that are none: all of them would push what is wrong off the screen. */
function nearHelp(words: readonly string[]): string {
  const group = commandsUnder(COMMANDS, words.slice(0, 1))
  const near = group.length > 0 ? group : commandsCalled(COMMANDS, words[0])
  return near.length > 0 ? overview(near) : 'sluice help lists the commands.'
}

function helpFor(words: readonly string[]): string {
  const exact = COMMANDS[words.join(' ')] ?? findCommand(COMMANDS, words)?.command
  if (exact) return helpOf(exact)
  const group = commandsUnder(COMMANDS, words)
  if (group.length > 0) return overview(group)
  const meant = meantCommand(COMMANDS, words)
  throw new UsageError(`there is no command "${words.join(' ')}"${meant === null ? '' : `; did you mean "${meant}"?`}`)
}

function fail(error: unknown, help: string, wrongUse: number): number {
  const isWrongUse = error instanceof UsageError
  // Names of files and words of manifests stand in it, whoever wrote them.
  const message = plainLines(inWords(error))
  const remedy = (error as { readonly remedy?: string }).remedy
  console.error([`sluice: ${message}`, ...(remedy ? [remedy] : []), ...(isWrongUse ? ['', help] : [])].join('\n'))
  return isWrongUse ? wrongUse : 1
}

async function print(text: string): Promise<number> {
  await printOut(text)
  return 0
}

/** Flags of one command are not flags of the configuration: only those named are, and `--a.b` ones. */
function sourcesOf(args: Arguments): ConfigSources {
  const flags = Object.entries(args.flags).filter(([name]) => CONFIG_FLAGS.includes(name) || name.includes('.'))
  const { config: named, ...rest } = Object.fromEntries(flags)
  const file = named ?? process.env['SLUICE_CONFIG'] ?? (existsSync('sluice.yaml') ? 'sluice.yaml' : undefined)
  return { ...(file ? { file } : {}), environment: process.env, flags: rest }
}
