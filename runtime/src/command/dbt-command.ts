/** Commands over projects of dbt. */
import { type Command, REMOTE_FLAGS } from './command.ts'

/** A server is asked with `known-classes` alone, and nothing that it answers is printed. */
const { json: _, ...ASKED } = REMOTE_FLAGS

export const DBT_COMMANDS: Readonly<Record<string, Command>> = {
  'dbt import': {
    usage: 'dbt import TARGET_FOLDER OUT_FOLDER --connection C [--namespace N]',
    summary: 'write the models of a compiled dbt project as a folder of products, for apply',
    flags: {
      connection: 'the connection that sources, seeds and snapshots are read by',
      namespace: 'of all products; default: each model’s schema',
      tables: 'models that dbt goes on making, and that are read as tables of the connection: fct_a,py_b',
      'known-classes': 'ask the server by which classes products hide columns of the connection already',
      json: 'what was carried, and what was not, as JSON',
      ...ASKED,
    },
    twoMeans: 'some models or tests were not carried',
    run: async (call) => (await import('./dbt/import.ts')).importDbt(call),
  },
}
