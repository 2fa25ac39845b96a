/** The command for whoever writes manifests: a plan and a preview at each save. */
import type { Command } from './command.ts'

export const DEV_COMMANDS: Readonly<Record<string, Command>> = {
  dev: {
    usage: 'dev FOLDER [--once] [--rows N]',
    summary: 'plan the products of a folder at each save, with rows and checks of what they would give, until Ctrl-C',
    flags: {
      once: 'a single time: ends with 0 where it could be deployed, 1 where something is refused',
      rows: 'of each preview; default 10, at most 100',
      lower: 'columns whose class may become lower by this: crm.people.email,crm.people.city',
      breaks: 'products made of these that may not be made any more by this: sales.daily',
    },
    remote: true,
    run: async (call) => (await import('./dev.ts')).dev(call),
  },
}
