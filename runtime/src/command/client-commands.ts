/** Commands over clients of products, which others build into their programs. */
import type { Command } from './command.ts'

export const CLIENT_COMMANDS: Readonly<Record<string, Command>> = {
  'client generate': {
    usage: 'client generate [PRODUCT...] --lang ts|python --out FILE [--check]',
    summary: 'write a typed client of products, as you see them; of all that you may read where none is named',
    flags: {
      lang: 'ts or python; neither needs a library beside it',
      out: 'the file to write, or to check',
      check: 'write nothing: end with 1, and say what differs, where the server shows you something else by now',
    },
    remote: true,
    run: async (call) => (await import('./client-file/generate.ts')).generateCommand(call),
  },
}
