/** Reads by programs that speak the protocol of Airbyte's sources, as the operator has installed them. Experimental: see the guide. */
import { defineConnector } from '@sluice/sdk'
import { createConnector } from './connector.ts'
import { type AirbyteSettings, parseSettings, settingsSchema } from './settings.ts'

export default defineConnector<AirbyteSettings>({
  type: 'airbyte',
  name: 'airbyte',
  version: '0.1.0',
  description:
    'Sources that are read by connectors of Airbyte’s protocol, which the operator has installed. Experimental.',
  settingsSchema,
  capabilities: { modes: ['full', 'incremental'], csv: true },
  open: async (settings, host) => createConnector(parseSettings(settings), host),
})
