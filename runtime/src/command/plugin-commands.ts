import { type Command, word } from './command.ts'

export const PLUGIN_COMMANDS: Readonly<Record<string, Command>> = {
  'plugin new': {
    usage: 'plugin new FOLDER',
    summary: 'a package of a store that works, to be changed into your own',
    flags: { connector: 'a source connector instead' },
    async run(call) {
      const { newPlugin } = await import('./plugin-package.ts')
      return newPlugin(word(call, 0, 'FOLDER'), call.args.flags['connector'] ? 'connector' : 'store')
    },
  },
  'plugin check': {
    usage: 'plugin check PLUGIN',
    summary: 'what the runtime makes of a plugin: manifest, SDK range, what is proved',
    flags: { 'allow-unproved': 'as it would be with allow_unproved' },
    async run(call) {
      const { checkPlugin } = await import('./plugin-package.ts')
      return checkPlugin(word(call, 0, 'PLUGIN'), await call.config())
    },
  },
}
