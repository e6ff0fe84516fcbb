// kit.mjs - the package under test, from the folder of tools/interop-setup.
import { createRequire } from 'node:module'
import { join } from 'node:path'

const require = createRequire(join(process.env.SCALEBOX_PACKAGES, 'node_modules', 'x.js'))
export const scalebox = require('@scalebox/sdk')
export const isOld = /^3\.[0-6]\./.test(require('@scalebox/sdk/package.json').version)
