import type { Command } from './command.ts'

export const CONFIG_COMMANDS: Readonly<Record<string, Command>> = {
  config: {
    usage: 'config [--explain [KEY]] [--check]',
    summary: 'the configuration in force, secrets hidden; what a key means, its value and where that comes from',
    flags: {
      explain: 'every key, or one and what is inside it, as limits.workers',
      check: 'only whether it is valid; exit code 1 where it is not',
    },
    run: async (call) => (await import('./config-shown.ts')).configShown(call),
  },
}
