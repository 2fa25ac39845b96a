/** Commands over a folder of products: what it says is made so on the server, or compared with it. */
import type { Command } from './command.ts'

export const APPLY_COMMANDS: Readonly<Record<string, Command>> = {
  apply: {
    usage: 'apply FOLDER [--check] [--yes] [--prune]',
    summary: 'plan every product of a folder, and deploy those that are new or changed, in the order that they need',
    flags: {
      check: 'only plan: ends with 0 where there is nothing to do, 2 where there is, 1 where something is refused',
      yes: 'do not ask before products are deployed',
      version: 'of every product that changes; default: the next patch or minor version of each',
      breaking: 'products whose changes may break their readers, each by its next major version: crm.people,crm.orders',
      lower: 'columns whose class may become lower by this: crm.people.email,crm.people.city',
      prune: 'remove products that the server has in the namespaces of the folder, and the folder has not',
      'yes-prune': 'do not ask before they are removed',
      'no-wait': 'do not wait for the content of each',
    },
    remote: true,
    twoMeans: 'with --check there is something to do',
    run: async (call) => (await import('./apply.ts')).apply(call),
  },
  drift: {
    usage: 'drift FOLDER',
    summary: 'what the server has that a folder of products does not say, and what it lacks',
    remote: true,
    twoMeans: 'something has drifted',
    run: async (call) => (await import('./drift.ts')).drift(call),
  },
}
