var __defProp = Object.defineProperty;
var __export = (target, all) => {
  for (var name in all)
    __defProp(target, name, { get: all[name], enumerable: true });
};

// node_modules/preact/dist/preact.mjs
var n;
var t;
var r;
var i;
var u;
var f;
var e;
var o;
var l;
var c;
var a;
var s;
var h = /* @__PURE__ */ Symbol.for("pv");
var p = {};
var v = [];
var y = /^m(i|n|o|s|text|space)$/;
var w = Array.isArray;
var d = v.slice;
var _ = Object.assign;
function g(n3) {
  n3 && n3.parentNode && n3.remove();
}
function k(n3, t4, r4) {
  var i4, u4, f5, e4 = {}, o5 = arguments.length;
  for (f5 in t4) "key" == f5 ? i4 = t4[f5] : "ref" == f5 && "function" != typeof n3 ? u4 = t4[f5] : e4[f5] = t4[f5];
  return o5 > 2 && (e4.children = o5 > 3 ? d.call(arguments, 2) : r4), m(n3, e4, i4, u4, null);
}
function m(r4, i4, u4, f5, e4) {
  var o5 = { type: r4, props: i4, key: u4, ref: f5, __k: null, __: null, __b: 0, __e: null, __c: null, constructor: h, __v: e4 || ++t, __i: -1, __u: 0 };
  return !e4 && n.vnode && n.vnode(o5), o5;
}
function M(n3) {
  return n3.children;
}
function x(n3, t4) {
  this.props = n3, this.context = t4, this.__g = 0;
}
function S(n3, t4) {
  if (null == t4) return n3.__ && S(n3.__, n3.__i + 1);
  for (var r4; t4 < n3.__k.length; t4++) if ((r4 = n3.__k[t4]) && r4.__e) return r4.__e;
  return "function" != typeof n3.type || n3.props.__P ? null : S(n3);
}
function C(n3) {
  if ((n3 = n3.__) && n3.__c && !n3.props.__P) return n3.__e = null, n3.__k.some(function(t4) {
    return t4 && (n3.__e = t4.__e);
  }), C(n3);
}
function j(t4) {
  (8 & t4.__g || (t4.__g |= 8, i.push(t4), f++)) && u == n.debounceRendering || ((u = n.debounceRendering) || queueMicrotask)(L);
}
function L() {
  var t4, r4, o5, l4, c4, a5, s4, p5, v4;
  try {
    for (r4 = 1; i.length; ) i.length > r4 && i.sort(e), t4 = i.shift(), r4 = i.length, 8 & t4.__g && (l4 = void 0, c4 = void 0, a5 = (c4 = (o5 = t4).__v).__e, s4 = [], p5 = [], (v4 = o5.__P) && ((l4 = _({ constructor: h }, c4)).__v = c4.__v + 1, n.vnode && n.vnode(l4), V(v4, l4, c4, o5.__n, v4.namespaceURI, 32 & c4.__u ? [a5] : null, s4, a5 || S(c4), 32 & c4.__u, p5), l4.__v = c4.__v, l4.__.__k[l4.__i] = l4, D(s4, l4, p5), c4.__ = c4.__e = null, l4.__e != a5 && C(l4)));
  } finally {
    (f = i.length) && (u || queueMicrotask)(L);
  }
}
function H(n3, t4, r4, i4, u4, f5, e4, o5, l4, c4, a5) {
  var s4, h5, y5, w5, d5, _4, g5 = i4.__k || v, k4 = t4.length;
  for (l4 = I(r4, t4, g5, l4, k4), s4 = 0; s4 < k4; s4++) null != (y5 = r4.__k[s4]) && (h5 = ~y5.__i && g5[y5.__i] || p, y5.__i = s4, _4 = V(n3, y5, h5, u4, f5, e4, o5, l4, c4, a5), w5 = y5.__e, (h5.ref != y5.ref || 8 & h5.__u) && (h5.ref && F(h5.ref, null, y5, h5), y5.ref && a5.push(y5.ref, y5.__c || w5, y5)), d5 = d5 || w5, 4 & y5.__u ? (l4 = q(y5, l4, n3, !h5.__v), h5.__e && (h5.__e = null)) : "function" == typeof y5.type && void 0 !== _4 ? l4 = _4 : w5 && (l4 = w5.nextSibling), y5.__u &= -21);
  return r4.__e = d5, l4;
}
function I(n3, t4, r4, i4, u4) {
  var f5, e4, o5, l4, c4, a5, s4, p5, v4, y5 = r4.length, d5 = y5, _4 = 0, g5 = 0, k4 = n3.__k = Array(u4);
  for (f5 = 0; f5 < u4; f5++) null != (e4 = t4[f5]) && "boolean" != typeof e4 && "function" != typeof e4 ? ("object" != typeof e4 || e4.constructor === String ? e4 = k4[f5] = m(null, e4) : w(e4) ? e4 = k4[f5] = m(M, { children: e4 }) : e4.constructor === h && e4.__b ? e4 = k4[f5] = m(e4.type, e4.props, e4.key, e4.ref, e4.__v) : k4[f5] = e4, l4 = f5 + _4, e4.__ = n3, e4.__b = n3.__b + 1, o5 = null, ~(c4 = e4.__i = O(e4, r4, l4, d5)) && (d5--, (o5 = r4[c4]) && (o5.__u |= 2)), o5 && o5.__v ? (e4.__u |= 16, c4 == l4 - 1 ? _4-- : c4 == l4 + 1 ? _4++ : c4 != l4 && (c4 > l4 ? _4-- : _4++, g5 = 1)) : (~c4 || (u4 > y5 ? _4-- : u4 < y5 && _4++), "function" != typeof e4.type && (e4.__u |= 4))) : k4[f5] = null;
  if (g5) {
    for (a5 = [], s4 = [], f5 = 0; f5 < u4; f5++) if ((e4 = k4[f5]) && 16 & e4.__u) {
      for (_4 = 0, p5 = a5.length; _4 < p5; ) a5[v4 = _4 + p5 >> 1] < e4.__i ? _4 = v4 + 1 : p5 = v4;
      a5[_4] = e4.__i, s4[f5] = _4 + 1;
    }
    for (_4 = a5.length; f5--; ) s4[f5] && (s4[f5] == _4 ? _4-- : k4[f5].__u |= 4);
  }
  if (d5) for (f5 = 0; f5 < y5; f5++) !(o5 = r4[f5]) || 2 & o5.__u || (o5.__e == i4 && (i4 = S(o5)), G(o5, o5));
  return i4;
}
function q(n3, t4, r4, i4) {
  var u4, f5, e4, o5;
  if ("function" == typeof n3.type) {
    if (n3.props.__P) return t4;
    if (u4 = n3.__k) for (f5 = 0; f5 < u4.length; f5++) u4[f5] && (u4[f5].__ = n3, t4 = q(u4[f5], t4, r4, false));
    return t4;
  }
  for (t4 && !t4.parentNode && (t4 = S(n3)) && !t4.parentNode && (t4 = null), e4 = n3.__e, o5 = t4; o5 && 8 == o5.nodeType; ) o5 = o5.nextSibling;
  for (e4 != o5 && (!i4 && r4.moveBefore && e4.parentNode ? r4.moveBefore(e4, t4) : r4.insertBefore(e4, t4 || null)), t4 = e4; (t4 = t4 && t4.nextSibling) && 8 == t4.nodeType && !t4.data.startsWith("$s"); ) ;
  return t4;
}
function O(n3, t4, r4, i4) {
  var u4, f5 = n3.key, e4 = n3.type, o5 = t4[r4], l4 = o5 && !(2 & o5.__u);
  if (null === o5 && null == f5 || l4 && f5 == o5.key && e4 == o5.type) return r4;
  if (i4 > (l4 ? 1 : 0)) {
    for (u4 = r4 - 1; u4 >= 0; u4--) if ((o5 = t4[u4]) && !(2 & o5.__u) && f5 == o5.key && e4 == o5.type) return u4;
    for (u4 = r4 + 1; u4 < t4.length; u4++) if ((o5 = t4[u4]) && !(2 & o5.__u) && f5 == o5.key && e4 == o5.type) return u4;
  }
  return -1;
}
function P(n3, t4, r4) {
  null == r4 && (r4 = ""), "-" == t4[0] ? n3.setProperty(t4, r4) : n3[t4] = r4;
}
function T(n3, t4, r4, i4, u4) {
  var f5, e4;
  if ("style" == t4) if ("string" == typeof r4) n3.style.cssText = r4;
  else {
    if ("string" == typeof i4 && (n3.style.cssText = i4 = ""), i4) for (t4 in i4) r4 && t4 in r4 || P(n3.style, t4);
    if (r4) for (t4 in r4) i4 && r4[t4] == i4[t4] || P(n3.style, t4, r4[t4]);
  }
  else if ("o" == t4[0] && "n" == t4[1]) (n3.__e || (n3.__e = {}))[t4] = r4, r4 && i4 || (e4 = a[t4] || (a[t4] = N(t4)), (n3.__a || (n3.__a = {}))[t4] = c, f5 = t4 != (t4 = t4.replace(l, "$1")), (t4 = t4.slice(2))[0] < "a" && (t4 = t4.toLowerCase()), r4 ? n3.addEventListener(t4, e4, f5) : n3.removeEventListener(t4, e4, f5));
  else {
    if ("http://www.w3.org/2000/svg" == u4) t4 = t4.replace(/xlink(H|:h)/, "h").replace(/sName$/, "s");
    else if ("width" != t4 && "height" != t4 && "href" != t4 && "list" != t4 && "form" != t4 && "tabIndex" != t4 && "download" != t4 && "rowSpan" != t4 && "colSpan" != t4 && "role" != t4 && "popover" != t4 && t4 in n3) try {
      return void (n3[t4] = null == r4 ? "" : r4);
    } catch (n4) {
    }
    if ("function" == typeof r4) return;
    null == r4 || false === r4 && "-" != t4[4] ? n3.removeAttribute(t4) : n3.setAttribute(t4, "popover" == t4 && 1 == r4 ? "" : r4);
  }
}
function N(t4) {
  return function(r4) {
    var i4 = this.__e;
    if (i4) {
      if (i4 = i4[t4], null == r4[o]) r4[o] = c++;
      else if (r4[o] < this.__a[t4]) return;
      return i4(n.event ? n.event(r4) : r4);
    }
  };
}
function V(t4, r4, i4, u4, f5, e4, o5, l4, c4, a5) {
  var s4, p5, y5, d5, k4, b3, m5, $, C3, j3, L2, I2, q2, A3, O3, P2, T4, N2, V2 = r4.type;
  if (r4.constructor !== h) return null;
  128 & i4.__u && (c4 = 32 & i4.__u, s4 = i4.__c.__z) && (r4.__u |= c4, p5 = e4 = [], 8 == s4.nodeType ? l4 = z(s4, e4) : e4.push(s4), l4 = e4[0] || l4), (s4 = n.__b) && s4(r4);
  n: if ("function" == typeof V2) {
    y5 = o5.length;
    try {
      if ($ = r4.props, C3 = (s4 = V2.prototype) && s4.render, j3 = (s4 = V2.contextType) && u4[s4.__c], L2 = s4 ? j3 ? j3.props.value : s4.__ : u4, (d5 = i4.__c) ? (r4.__c = d5, 2 & d5.__g && (d5.__g |= 1)) : (C3 ? r4.__c = d5 = new V2($, L2) : (r4.__c = d5 = new x($, L2), d5.constructor = V2, d5.render = J), j3 && j3.sub(d5), d5.state || (d5.state = {}), d5.__n = u4, d5.__g |= 8, d5.__h = [], d5.__k = []), C3 && (d5.__s || (d5.__s = d5.state), V2.getDerivedStateFromProps && (d5.__s == d5.state && (d5.__s = _({}, d5.__s)), _(d5.__s, V2.getDerivedStateFromProps($, d5.__s)))), k4 = d5.props, b3 = d5.state, d5.__v = r4, i4.__c) {
        if ($ !== k4 && C3 && !V2.getDerivedStateFromProps && d5.componentWillReceiveProps && d5.componentWillReceiveProps($, L2), r4.__v == i4.__v && !(8 & d5.__g) || !(4 & d5.__g) && d5.shouldComponentUpdate && false === d5.shouldComponentUpdate($, d5.__s, L2)) {
          r4.__v != i4.__v && (d5.props = $, d5.state = d5.__s, d5.__g &= -9), r4.__e = i4.__e, r4.__k = i4.__k, r4.__k.some(function(n3) {
            n3 && (n3.__ = r4);
          }), v.push.apply(d5.__h, d5.__k), d5.__k = [], d5.__h.length && o5.push(d5), l4 = S(i4);
          break n;
        }
        d5.componentWillUpdate && d5.componentWillUpdate($, d5.__s, L2), C3 && d5.componentDidUpdate && d5.__h.push(function() {
          d5.componentDidUpdate(k4, b3, m5);
        });
      } else C3 && !V2.getDerivedStateFromProps && d5.componentWillMount && d5.componentWillMount(), C3 && d5.componentDidMount && d5.__h.push(d5.componentDidMount);
      if (d5.context = L2, d5.props = $, d5.__P = t4, d5.__g &= -5, I2 = n.__r, q2 = 0, C3) d5.state = d5.__s, d5.__g &= -9, I2 && I2(r4), s4 = d5.render(d5.props, d5.state, d5.context), v.push.apply(d5.__h, d5.__k), d5.__k = [];
      else do {
        d5.__g &= -9, I2 && I2(r4), s4 = d5.render(d5.props, d5.state, d5.context), d5.state = d5.__s;
      } while (8 & d5.__g && ++q2 < 25);
      d5.state = d5.__s, d5.getChildContext && (u4 = _({}, u4, d5.getChildContext())), C3 && i4.__c && d5.getSnapshotBeforeUpdate && (m5 = d5.getSnapshotBeforeUpdate(k4, b3)), A3 = s4 && s4.type === M && null == s4.key ? s4.props.children : s4, $.__P && (s4 = l4, f5 = (t4 = $.__P).namespaceURI, c4 = e4 = null, i4.props && i4.props.__P != t4 && (i4.__k.some(function(n3) {
        n3 && G(n3, n3);
      }), i4.__k = null), l4 = i4.__k ? S(i4, 0) : null), l4 = H(t4, w(A3) ? A3 : [A3], r4, i4, u4, f5, e4, o5, l4, c4, a5), $.__P && (r4.__e = null, l4 = s4), r4.__u &= -161, p5 && p5.some(g), d5.__h.length && o5.push(d5), 1 & d5.__g && (d5.__g &= -4);
    } catch (t5) {
      if (o5.length = y5, r4.__v = null, c4 || e4) if (t5.then) {
        if (O3 = 0, r4.__u |= 128 | c4, e4) {
          for (~(T4 = e4.indexOf(l4 || void 0)) || (T4 = e4.length); (N2 = e4[T4 - 1]) && 8 == N2.nodeType; ) T4--;
          for (; T4 < e4.length; T4++) if (N2 = e4[T4]) {
            if (e4[T4] = null, 8 == N2.nodeType) {
              if (N2.data.startsWith("$s")) O3++ || (P2 = N2);
              else if (O3 && N2.data.startsWith("/$s") && !--O3) break;
            } else if (!O3) break;
          }
        }
        if (!P2) {
          for (; l4 && 8 == l4.nodeType && l4.nextSibling; ) l4 = l4.nextSibling;
          P2 = l4;
        }
        (s4 = z(P2 = r4.__c.__z || (r4.__c.__z = P2))) ? (r4.__e = P2, l4 = s4) : r4.__e = l4, l4 = l4 && l4.nextSibling;
      } else e4 && e4.some(g);
      else r4.__e = i4.__e;
      r4.__k || (r4.__k = i4.__k || []), t5.then || B(r4), n.__e(t5, r4, i4);
    }
  } else l4 = r4.__e = E(i4.__e, r4, i4, u4, f5, e4, o5, c4, a5, t4);
  return (s4 = n.diffed) && s4(r4), l4;
}
function z(n3, t4) {
  if (n3 && 8 == n3.nodeType && n3.data.startsWith("$s")) for (var r4 = 1; n3 = n3.nextSibling; ) {
    if (8 == n3.nodeType) {
      if (n3.data.startsWith("$s")) r4++;
      else if (n3.data.startsWith("/$s") && !--r4) return n3;
    }
    t4 && t4.push(n3);
  }
}
function B(n3) {
  n3 && (n3.__c && (n3.__c.__g |= 4), n3.__k && n3.__k.some(B));
}
function D(t4, r4, i4) {
  for (var u4 = 0; u4 < i4.length; ) F(i4[u4++], i4[u4++], i4[u4++]);
  n.__c && n.__c(r4, t4), t4.some(function(r5) {
    try {
      t4 = r5.__h, r5.__h = [], t4.some(function(n3) {
        n3.call(r5);
      });
    } catch (t5) {
      n.__e(t5, r5.__v);
    }
  });
}
function E(t4, r4, i4, u4, f5, e4, o5, l4, c4, a5) {
  var s4, h5, v4, _4, k4, b3, m5, $, M3, x3 = i4.props || p, C3 = r4.props, j3 = r4.type;
  if ("svg" == j3 ? f5 = "http://www.w3.org/2000/svg" : "math" == j3 ? f5 = "http://www.w3.org/1998/Math/MathML" : f5 || (f5 = "http://www.w3.org/1999/xhtml"), e4) {
    for (s4 = 0; s4 < e4.length; s4++) if ((k4 = e4[s4]) && (j3 ? k4.localName == j3 : 3 == k4.nodeType)) {
      t4 = k4, e4[s4] = null;
      break;
    }
  }
  if (!t4) {
    if ($ = a5.ownerDocument || document, !j3) return $.createTextNode(C3);
    t4 = $.createElementNS(f5, j3, C3.is && C3), l4 && (n.__m && n.__m(r4, e4), l4 = false), e4 = null;
  }
  if (j3) {
    if (a5 = "template" == j3 ? t4.content : t4, e4 = "textarea" == j3 && null != C3.defaultValue ? null : e4 && d.call(a5.childNodes), !l4 && e4) for (x3 = {}, s4 = 0; s4 < t4.attributes.length; s4++) x3[(k4 = t4.attributes[s4]).name] = k4.value;
    for (s4 in x3) k4 = x3[s4], "dangerouslySetInnerHTML" == s4 ? v4 = k4 : "children" == s4 || s4 in C3 || "value" == s4 && "defaultValue" in C3 || "checked" == s4 && "defaultChecked" in C3 || T(t4, s4, null, k4, f5);
    for (s4 in M3 = 1 & i4.__u, C3) k4 = C3[s4], "children" == s4 ? _4 = k4 : "dangerouslySetInnerHTML" == s4 ? h5 = k4 : "value" == s4 ? b3 = k4 : "checked" == s4 ? m5 = k4 : l4 && "function" != typeof k4 || !(x3[s4] !== k4 || M3 && null != k4) || T(t4, s4, k4, x3[s4], f5);
    h5 ? (l4 || v4 && (h5.__html == v4.__html || h5.__html == t4.innerHTML) || (t4.innerHTML = h5.__html), r4.__k = []) : (v4 && (t4.textContent = ""), ("foreignObject" == j3 || "http://www.w3.org/1998/Math/MathML" == f5 && y.test(j3)) && (f5 = "http://www.w3.org/1999/xhtml"), H(a5, w(_4) ? _4 : [_4], r4, i4, u4, f5, e4, o5, e4 ? e4[0] : i4.__k && S(i4, 0), l4, c4), e4 && e4.some(g)), l4 && "textarea" != j3 || (s4 = "value", "progress" == j3 && null == b3 ? t4.removeAttribute(s4) : null == b3 || b3 === t4[s4] && ("progress" != j3 || b3) || T(t4, s4, b3, x3[s4], f5), s4 = "checked", null != m5 && m5 != t4[s4] && T(t4, s4, m5, x3[s4], f5));
  } else x3 === C3 || l4 && t4.data == C3 || (t4.data = C3);
  return t4;
}
function F(t4, r4, i4, u4) {
  try {
    "function" == typeof t4 ? r4 ? r4.__x = t4(r4) || 1 : u4 && (u4 = u4.__c || u4.__e) && (r4 = u4.__x) && (u4.__x = null, "function" == typeof r4 ? r4() : t4(null)) : t4.current = r4;
  } catch (t5) {
    n.__e(t5, i4);
  }
}
function G(t4, r4, i4) {
  var u4, f5, e4, o5;
  if (n.unmount && n.unmount(t4), !(u4 = t4.ref) || u4.current && u4.current != t4.__e || F(u4, null, r4, t4), u4 = t4.__c) {
    if (u4.componentWillUnmount) try {
      u4.componentWillUnmount();
    } catch (t5) {
      n.__e(t5, r4);
    }
    u4.__P = u4.__n = null;
  }
  if (u4 = t4.__k) for (o5 = 0; o5 < u4.length; o5++) u4[o5] && G(u4[o5], r4, "function" != typeof t4.type || i4 && !t4.props.__P);
  !i4 && (u4 = t4.__c) && (u4 = u4.__z) && (f5 = z(u4, e4 = [])) && (u4 == t4.__e && e4.some(g), g(f5), g(u4)), (u4 = t4.__e) && (i4 || g(u4), u4.__e && (u4.__e = null)), t4.__e = t4.__c = t4.__ = null;
}
function J(n3, t4, r4) {
  return this.constructor(n3, r4);
}
function K(t4, r4) {
  var i4, u4, f5, e4;
  n.__ && n.__(t4, r4), 9 == r4.nodeType && (r4 = r4.documentElement), u4 = (i4 = t4 && 32 & t4.__u) ? null : r4.__k, r4.__k = m(M, { children: [t4] }), f5 = [], e4 = [], V(r4, r4.__k, u4 || p, p, r4.namespaceURI, u4 ? null : r4.firstChild ? d.call(r4.childNodes) : null, f5, u4 ? u4.__e : r4.firstChild, i4, e4), D(f5, r4.__k, e4), r4.__k.props.children = null;
}
n = { __e: function(n3, t4, r4, i4) {
  for (var u4, e4, o5; t4 = t4.__; ) if ((u4 = t4.__c) && !(1 & u4.__g)) {
    u4.__g |= 4;
    try {
      if ((o5 = (e4 = u4.constructor) && e4.getDerivedStateFromError) && u4.setState(e4.getDerivedStateFromError(n3)), u4.componentDidCatch && (u4.componentDidCatch(n3, i4 || {}), o5 = 1), o5 && 8 & u4.__g) return void (u4.__g |= 2);
    } catch (t5) {
      n3 = t5;
    }
  }
  throw f = 0, n3;
} }, t = 0, r = function(n3) {
  return null != n3 && n3.constructor === h;
}, x.prototype.setState = function(n3, t4) {
  var r4 = this.__s;
  r4 && r4 != this.state || (r4 = this.__s = _({}, this.state)), "function" == typeof n3 && (n3 = n3(_({}, r4), this.props)), n3 && (_(r4, n3), this.__v && (t4 && this.__k.push(t4), j(this)));
}, x.prototype.forceUpdate = function(n3) {
  this.__v && (this.__g |= 4, n3 && this.__h.push(n3), j(this));
}, x.prototype.render = M, i = [], f = 0, e = function(n3, t4) {
  return n3.__v.__b - t4.__v.__b;
}, o = /* @__PURE__ */ Symbol(), l = /(PointerCapture)$|Capture$/i, c = 0, a = {}, s = 0;

// node_modules/preact/hooks/dist/hooks.mjs
var t2;
var r2;
var u2;
var i2;
var o2 = Object.is;
var f2 = 0;
var c2 = [];
var e2 = [];
var a2 = n;
var v2 = a2.__b;
var l2 = a2.__r;
var m2 = a2.diffed;
var h2 = a2.__c;
var s2 = a2.unmount;
var p2 = a2.__;
function y2(n3, t4) {
  a2.__h && a2.__h(r2, n3, f2 || t4), f2 = 0;
  var u4 = r2.__H || (r2.__H = { __: [], __h: [] });
  return n3 >= u4.__.length && u4.__.push({}), u4.__[n3];
}
function d2(n3) {
  return f2 = 1, _2(G2, n3);
}
function _2(n3, u4, i4) {
  var f5 = y2(t2++, 2);
  if (f5.t = n3, !f5.__c && (f5.__ = [i4 ? i4(u4) : G2(void 0, u4), function(n4) {
    var t4 = f5.__N ? f5.__N[0] : f5.__[0], r4 = f5.t(t4, n4);
    o2(t4, r4) || (f5.__N = [r4, f5.__[1]], f5.__c.setState({}));
  }], f5.__c = r2, !r2.__f)) {
    r2.__f = true;
    var c4 = r2.shouldComponentUpdate;
    r2.shouldComponentUpdate = function(n4, t4, r4) {
      var u5 = this.__H;
      if (!u5) return true;
      var i5 = false, f6 = this.props != n4;
      if (u5.__.some(function(n5) {
        n5.__N && (i5 = true, o2(n5.__[0], n5.__N[0]) || (f6 = true));
      }), c4) {
        var e4 = c4.call(this, n4, t4, r4);
        return i5 ? e4 || f6 : e4;
      }
      return !i5 || f6;
    };
  }
  return f5.__;
}
function A(n3, u4) {
  var i4 = y2(t2++, 3);
  !a2.__s && E2(i4.__H, u4) && (i4.__P = true, i4.__ = n3, i4.u = u4, r2.__H.__h.push(i4));
}
function T2(n3) {
  return f2 = 5, w2(function() {
    return { current: n3 };
  }, []);
}
function w2(n3, r4) {
  var u4 = y2(t2++, 7);
  return E2(u4.__H, r4) && (u4.__ = n3(), u4.__H = r4), u4.__;
}
function g2() {
  var n3;
  do {
    for (; n3 = e2.shift(); ) try {
      C2(n3);
    } catch (t5) {
      a2.__e(t5, { __: (n3 = n3.__P) && n3.__v });
    }
    for (; n3 = c2.shift(); ) {
      var t4 = n3.__H;
      if (n3.__P && t4) try {
        t4.__h.some(C2), t4.__h.some(D2), t4.__h = [];
      } catch (r4) {
        t4.__h = [], a2.__e(r4, n3.__v);
      }
    }
  } while (e2.length);
}
a2.__b = function(n3) {
  r2 = null, v2 && v2(n3);
}, a2.__ = function(n3, t4) {
  n3 && t4.__k && t4.__k.__m && (n3.__m = t4.__k.__m), p2 && p2(n3, t4);
}, a2.__r = function(n3) {
  l2 && l2(n3), t2 = 0;
  var i4 = (r2 = n3.__c).__H;
  i4 && (u2 == r2 ? r2.__h = [] : (i4.__h.some(C2), i4.__h.some(D2), t2 = 0), i4.__h = [], i4.__.some(function(n4) {
    n4.__N && (n4.__ = n4.__N), n4.u = n4.__N = void 0;
  })), u2 = r2;
}, a2.diffed = function(n3) {
  m2 && m2(n3);
  var t4 = n3.__c;
  t4 && t4.__H && (t4.__H.__h.length && B2(c2.push(t4)), t4.__H.__.some(function(n4) {
    n4.u && (n4.__H = n4.u);
  })), u2 = r2 = null;
}, a2.__c = function(n3, t4) {
  t4.some(function(n4) {
    try {
      n4.__h.some(C2), n4.__h = n4.__h.filter(function(n5) {
        return !n5.__ || D2(n5);
      });
    } catch (t5) {
      n4.__h = [function() {
        throw t5;
      }];
    }
  }), h2 && h2(n3, t4);
}, a2.unmount = function(n3) {
  s2 && s2(n3);
  var t4, r4, u4 = n3.__c;
  u4 && u4.__H && (u4.__H.__.some(function(u5) {
    try {
      if (u5.__P && u5.__c) {
        if (void 0 === r4) {
          for (r4 = n3.__; r4 && (!r4.__c || !r4.__c.__P); ) r4 = r4.__;
          r4 = r4 && r4.__c;
        }
        u5.__P = r4, B2(e2.push(u5));
      } else C2(u5);
    } catch (n4) {
      t4 = n4;
    }
  }), u4.__H = void 0, t4 && a2.__e(t4, u4.__v));
};
var k2 = "function" == typeof requestAnimationFrame;
function z2(n3) {
  var t4, r4 = function() {
    clearTimeout(u4), k2 && cancelAnimationFrame(t4), setTimeout(n3);
  }, u4 = setTimeout(r4, 35);
  k2 && (t4 = requestAnimationFrame(r4));
}
function B2(n3) {
  1 != n3 && i2 == a2.requestAnimationFrame || ((i2 = a2.requestAnimationFrame) || z2)(g2);
}
function C2(n3) {
  var t4 = r2, u4 = n3.__c;
  "function" == typeof u4 && (n3.__c = void 0, u4()), r2 = t4;
}
function D2(n3) {
  var t4 = r2;
  n3.__c = n3.__(), r2 = t4;
}
function E2(n3, t4) {
  return !n3 || n3.length != t4.length || t4.some(function(t5, r4) {
    return !o2(t5, n3[r4]);
  });
}
function G2(n3, t4) {
  return "function" == typeof t4 ? t4(n3) : t4;
}

// node_modules/@preact/signals-core/dist/signals-core.module.js
var i3 = /* @__PURE__ */ Symbol.for("preact-signals");
function t3() {
  if (!(v3 > 1)) {
    var i4, t4 = false;
    !(function() {
      var i5 = c3;
      c3 = void 0;
      while (void 0 !== i5) {
        var t5 = i5.S;
        if (t5.v === i5.v) {
          for (var r5 = t5.t; void 0 !== r5; r5 = r5.x) if (r5.i === i5.i) r5.i = t5.i;
        }
        i5 = i5.o;
      }
    })();
    while (void 0 !== h3) {
      var r4 = h3;
      h3 = void 0;
      s3++;
      while (void 0 !== r4) {
        var n3 = r4.u;
        r4.u = void 0;
        r4.f &= -3;
        if (!(8 & r4.f) && w3(r4)) try {
          r4.c();
        } catch (r5) {
          if (!t4) {
            i4 = r5;
            t4 = true;
          }
        }
        r4 = n3;
      }
    }
    s3 = 0;
    v3--;
    if (t4) throw i4;
  } else v3--;
}
function r3(i4) {
  if (v3 > 0) return i4();
  u3 = ++e3;
  v3++;
  try {
    return i4();
  } finally {
    t3();
  }
}
var n2;
var o3 = void 0;
function f3(i4) {
  var t4 = o3, r4 = n2;
  o3 = void 0;
  n2 = void 0;
  try {
    return i4();
  } finally {
    o3 = t4;
    n2 = r4;
  }
}
var h3 = void 0;
var v3 = 0;
var s3 = 0;
var e3 = 0;
var u3 = 0;
var c3 = void 0;
var a3 = 0;
function d3(i4) {
  if (void 0 !== o3) {
    var t4 = i4.n;
    if (void 0 === t4 || t4.t !== o3) {
      t4 = { i: 0, S: i4, p: o3.s, n: void 0, t: o3, e: void 0, x: void 0, r: t4 };
      if (void 0 !== o3.s) o3.s.n = t4;
      o3.s = t4;
      i4.n = t4;
      if (32 & o3.f) i4.S(t4);
      return t4;
    } else if (-1 === t4.i) {
      t4.i = 0;
      if (void 0 !== t4.n) {
        t4.n.p = t4.p;
        if (void 0 !== t4.p) t4.p.n = t4.n;
        t4.p = o3.s;
        t4.n = void 0;
        o3.s.n = t4;
        o3.s = t4;
      }
      return t4;
    }
  }
}
function l3(i4, t4) {
  this.v = i4;
  this.i = 0;
  this.n = void 0;
  this.t = void 0;
  this.l = 0;
  this.W = null == t4 ? void 0 : t4.watched;
  this.Z = null == t4 ? void 0 : t4.unwatched;
  this.name = null == t4 ? void 0 : t4.name;
}
l3.prototype.brand = i3;
l3.prototype.h = function() {
  return true;
};
l3.prototype.S = function(i4) {
  var t4 = this, r4 = this.t;
  if (r4 !== i4 && void 0 === i4.e) {
    i4.x = r4;
    this.t = i4;
    if (void 0 !== r4) r4.e = i4;
    else f3(function() {
      var i5;
      null == (i5 = t4.W) || i5.call(t4);
    });
  }
};
l3.prototype.U = function(i4) {
  var t4 = this;
  if (void 0 !== this.t) {
    var r4 = i4.e, n3 = i4.x;
    if (void 0 !== r4) {
      r4.x = n3;
      i4.e = void 0;
    }
    if (void 0 !== n3) {
      n3.e = r4;
      i4.x = void 0;
    }
    if (i4 === this.t) {
      this.t = n3;
      if (void 0 === n3) f3(function() {
        var i5;
        null == (i5 = t4.Z) || i5.call(t4);
      });
    }
  }
};
l3.prototype.subscribe = function(i4) {
  var t4 = this;
  return x2(function() {
    var r4 = t4.value;
    f3(function() {
      return i4(r4);
    });
  }, { name: "sub" });
};
l3.prototype.valueOf = function() {
  return this.value;
};
l3.prototype.toString = function() {
  return this.value + "";
};
l3.prototype.toJSON = function() {
  return this.value;
};
l3.prototype.peek = function() {
  var i4 = this;
  return f3(function() {
    return i4.value;
  });
};
Object.defineProperty(l3.prototype, "value", { get: function() {
  var i4 = d3(this);
  if (void 0 !== i4) i4.i = this.i;
  return this.v;
}, set: function(i4) {
  if (i4 !== this.v) {
    if (s3 > 100) throw new Error("Cycle detected");
    !(function(i5) {
      if (0 !== v3 && 0 === s3) {
        if (i5.l !== u3) {
          i5.l = u3;
          c3 = { S: i5, v: i5.v, i: i5.i, o: c3 };
        }
      }
    })(this);
    this.v = i4;
    this.i++;
    a3++;
    v3++;
    try {
      for (var r4 = this.t; void 0 !== r4; r4 = r4.x) r4.t.N();
    } finally {
      t3();
    }
  }
} });
function y3(i4, t4) {
  return new l3(i4, t4);
}
function w3(i4) {
  for (var t4 = i4.s; void 0 !== t4; t4 = t4.n) if (t4.S.i !== t4.i || !t4.S.h() || t4.S.i !== t4.i) return true;
  return false;
}
function b(i4) {
  for (var t4 = i4.s; void 0 !== t4; t4 = t4.n) {
    var r4 = t4.S.n;
    if (void 0 !== r4) t4.r = r4;
    t4.S.n = t4;
    t4.i = -1;
    if (void 0 === t4.n) {
      i4.s = t4;
      break;
    }
  }
}
function _3(i4) {
  var t4 = i4.s, r4 = void 0;
  while (void 0 !== t4) {
    var n3 = t4.p;
    if (-1 === t4.i) {
      t4.S.U(t4);
      if (void 0 !== n3) n3.n = t4.n;
      if (void 0 !== t4.n) t4.n.p = n3;
    } else r4 = t4;
    t4.S.n = t4.r;
    if (void 0 !== t4.r) t4.r = void 0;
    t4 = n3;
  }
  i4.s = r4;
}
function j2(i4, t4) {
  l3.call(this, void 0, t4);
  this.x = i4;
  this.s = void 0;
  this.g = a3 - 1;
  this.f = 4;
}
j2.prototype = new l3();
j2.prototype.h = function() {
  this.f &= -3;
  if (1 & this.f) return false;
  if (32 == (36 & this.f)) return true;
  this.f &= -5;
  if (this.g === a3) return true;
  this.g = a3;
  this.f |= 1;
  if (this.i > 0 && !w3(this)) {
    this.f &= -2;
    return true;
  }
  var i4 = o3;
  try {
    b(this);
    o3 = this;
    var t4 = this.x();
    if (16 & this.f || this.v !== t4 || 0 === this.i) {
      this.v = t4;
      this.f &= -17;
      this.i++;
    }
  } catch (i5) {
    this.v = i5;
    this.f |= 16;
    this.i++;
  }
  o3 = i4;
  _3(this);
  this.f &= -2;
  return true;
};
j2.prototype.S = function(i4) {
  if (void 0 === this.t) {
    this.f |= 36;
    for (var t4 = this.s; void 0 !== t4; t4 = t4.n) t4.S.S(t4);
  }
  l3.prototype.S.call(this, i4);
};
j2.prototype.U = function(i4) {
  if (void 0 !== this.t) {
    l3.prototype.U.call(this, i4);
    if (void 0 === this.t) {
      this.f &= -33;
      for (var t4 = this.s; void 0 !== t4; t4 = t4.n) t4.S.U(t4);
    }
  }
};
j2.prototype.N = function() {
  if (!(2 & this.f)) {
    this.f |= 6;
    for (var i4 = this.t; void 0 !== i4; i4 = i4.x) i4.t.N();
  }
};
Object.defineProperty(j2.prototype, "value", { get: function() {
  if (1 & this.f) throw new Error("Cycle detected");
  var i4 = d3(this);
  this.h();
  if (void 0 !== i4) i4.i = this.i;
  if (16 & this.f) throw this.v;
  return this.v;
} });
function O2(i4, t4) {
  return new j2(i4, t4);
}
function p3(i4) {
  var r4 = i4.j;
  i4.j = void 0;
  if ("function" == typeof r4) {
    v3++;
    var n3 = o3;
    o3 = void 0;
    try {
      r4();
    } catch (t4) {
      i4.f &= -2;
      i4.f |= 8;
      g3(i4);
      throw t4;
    } finally {
      o3 = n3;
      t3();
    }
  }
}
function g3(i4) {
  for (var t4 = i4.s; void 0 !== t4; t4 = t4.n) t4.S.U(t4);
  i4.x = void 0;
  i4.s = void 0;
  p3(i4);
}
function S2(i4) {
  if (o3 !== this) throw new Error("Out-of-order effect");
  _3(this);
  o3 = i4;
  this.f &= -2;
  try {
    if (8 & this.f) g3(this);
  } finally {
    t3();
  }
}
function m3(i4, t4) {
  this.x = i4;
  this.j = void 0;
  this.s = void 0;
  this.u = void 0;
  this.f = 32;
  this.name = null == t4 ? void 0 : t4.name;
  if (n2) n2.push(this);
}
m3.prototype.c = function() {
  var i4 = this.S();
  try {
    if (8 & this.f) return;
    if (void 0 === this.x) return;
    var t4 = this.x();
    if ("function" == typeof t4) this.j = t4;
  } finally {
    i4();
  }
};
m3.prototype.S = function() {
  if (1 & this.f) throw new Error("Cycle detected");
  this.f |= 1;
  this.f &= -9;
  p3(this);
  b(this);
  v3++;
  var i4 = o3;
  o3 = this;
  return S2.bind(this, i4);
};
m3.prototype.N = function() {
  if (!(2 & this.f)) {
    this.f |= 2;
    this.u = h3;
    h3 = this;
  }
};
m3.prototype.d = function() {
  this.f |= 8;
  if (!(1 & this.f)) g3(this);
};
m3.prototype.dispose = function() {
  this.d();
};
function x2(i4, t4) {
  var r4 = new m3(i4, t4);
  try {
    r4.c();
  } catch (i5) {
    r4.d();
    throw i5;
  }
  var n3 = r4.d.bind(r4);
  n3[Symbol.dispose] = n3;
  return n3;
}

// node_modules/@preact/signals/dist/signals.module.js
var h4;
var d4;
var p4;
var m4 = "undefined" != typeof window && !!window.__PREACT_SIGNALS_DEVTOOLS__;
var g4 = [];
x2(function() {
  h4 = this.N;
})();
function b2(i4, n3) {
  n[i4] = n3.bind(null, n[i4] || function() {
  });
}
function y4(i4) {
  if (p4) {
    var n3 = p4;
    p4 = void 0;
    n3();
  }
  p4 = i4 && i4.S();
}
function w4(i4) {
  var n3 = this, r4 = i4.data, t4 = useSignal(r4);
  t4.name = "ReactiveDom";
  t4.value = r4;
  var e4 = w2(function() {
    var i5 = n3, r5 = n3.__v;
    while (r5 = r5.__) if (r5.__c) {
      r5.__c.__$f |= 4;
      break;
    }
    var o5 = O2(function() {
      var i6 = t4.value.value;
      return 0 === i6 ? 0 : true === i6 ? "" : i6 || "";
    }), e5 = O2(function() {
      return !Array.isArray(o5.value) && !r(o5.value);
    }), u5 = x2(function() {
      this.N = M2;
      if (e5.value) {
        var n4 = o5.value;
        if (i5.__v && i5.__v.__e && 3 === i5.__v.__e.nodeType) i5.__v.__e.data = n4;
      }
    }), c5 = n3.__$u.d;
    n3.__$u.d = function() {
      u5();
      c5.call(this);
    };
    return [e5, o5];
  }, []), u4 = e4[0], c4 = e4[1];
  return u4.value ? c4.peek() : c4.value;
}
w4.displayName = "ReactiveTextNode";
Object.defineProperties(l3.prototype, { constructor: { configurable: true, value: k(M, null).constructor }, type: { configurable: true, value: w4 }, props: { configurable: true, get: function() {
  var i4 = this;
  return { data: { get value() {
    return i4.value;
  } } };
} }, __b: { configurable: true, value: 1 } });
b2("__b", function(i4, n3) {
  y4();
  d4 = void 0;
  if ("string" == typeof n3.type) {
    var r4, t4 = n3.props;
    for (var f5 in t4) if ("children" !== f5) {
      var o5 = t4[f5];
      if (o5 instanceof l3) {
        if (!r4) n3.__np = r4 = {};
        r4[f5] = o5;
        t4[f5] = o5.peek();
      }
    }
  }
  i4(n3);
});
b2("__r", function(i4, r4) {
  i4(r4);
  if (r4.type !== M) {
    y4();
    var t4, f5 = r4.__c;
    if (f5) {
      f5.__$f &= -2;
      if (void 0 === (t4 = f5.__$u)) f5.__$u = t4 = (function(i5, n3) {
        var r5;
        x2(function() {
          r5 = this;
        }, { name: n3 });
        r5.c = i5;
        return r5;
      })(/* @__PURE__ */ (function(i5) {
        return function() {
          var n3;
          if (m4) null == (n3 = this.y) || n3.call(this);
          i5.__$f |= 1;
          i5.setState({});
        };
      })(f5), "function" == typeof r4.type ? r4.type.displayName || r4.type.name : "");
    }
    d4 = f5;
    y4(t4);
  }
});
b2("__e", function(i4, n3, r4, t4) {
  y4();
  d4 = void 0;
  i4(n3, r4, t4);
});
b2("diffed", function(i4, n3) {
  y4();
  d4 = void 0;
  var r4;
  if ("string" == typeof n3.type && (r4 = n3.__e)) {
    var t4 = n3.__np, f5 = n3.props, o5 = r4.U;
    if (o5) for (var e4 in o5) {
      var u4 = o5[e4];
      if (!(void 0 === u4 || t4 && e4 in t4)) {
        u4.d();
        o5[e4] = void 0;
      }
    }
    if (t4) {
      if (!o5) {
        o5 = {};
        r4.U = o5;
      }
      for (var a5 in t4) {
        var c4 = o5[a5], v4 = t4[a5];
        if (void 0 === c4) {
          c4 = k3(r4, a5, v4, f5);
          o5[a5] = c4;
        } else c4.o(v4, f5);
      }
    }
  }
  i4(n3);
});
function k3(i4, n3, r4, t4) {
  var f5 = n3 in i4 && void 0 === i4.ownerSVGElement, o5 = y3(r4);
  return { o: function(i5, n4) {
    o5.value = i5;
    t4 = n4;
  }, d: x2(function() {
    this.N = M2;
    var r5 = o5.value.value;
    if (t4[n3] !== r5) {
      t4[n3] = r5;
      if (f5) i4[n3] = r5;
      else if (null != r5 && (false !== r5 || "-" === n3[4])) i4.setAttribute(n3, r5);
      else i4.removeAttribute(n3);
    }
  }) };
}
b2("unmount", function(i4, n3) {
  if ("string" == typeof n3.type) {
    var r4 = n3.__e;
    if (r4) {
      var t4 = r4.U;
      if (t4) {
        r4.U = void 0;
        for (var f5 in t4) {
          var o5 = t4[f5];
          if (o5) o5.d();
        }
      }
    }
    var e4 = n3.__np;
    if (e4) {
      var u4 = n3.props;
      for (var a5 in e4) u4[a5] = e4[a5];
    }
    n3.__np = void 0;
  } else {
    var c4 = n3.__c;
    if (c4) {
      c4.__$f |= 8;
      var v4 = c4.__$u;
      if (v4) {
        c4.__$u = void 0;
        v4.d();
      }
    }
  }
  i4(n3);
});
b2("__h", function(i4, n3, r4, t4) {
  if (t4 < 3) n3.__$f |= 2;
  i4(n3, r4, t4);
});
x.prototype.shouldComponentUpdate = function(i4, n3) {
  if (this.__R) return true;
  var r4 = this.__$u, t4 = r4 && void 0 !== r4.s;
  for (var f5 in n3) return true;
  if (this.__f || "boolean" == typeof this.u && true === this.u) {
    var o5 = 2 & this.__$f;
    if (!(t4 || o5 || 4 & this.__$f)) return true;
    if (1 & this.__$f) return true;
  } else {
    if (!(t4 || 4 & this.__$f)) return true;
    if (3 & this.__$f) return true;
  }
  for (var e4 in i4) if ("__source" !== e4 && i4[e4] !== this.props[e4]) return true;
  for (var u4 in this.props) if (!(u4 in i4)) return true;
  return false;
};
function useSignal(i4, n3) {
  return w2(function() {
    return y3(i4, n3);
  }, []);
}
var A2 = function(i4) {
  queueMicrotask(function() {
    queueMicrotask(i4);
  });
};
function F2() {
  r3(function() {
    var i4;
    while (i4 = g4.shift()) h4.call(i4);
  });
}
function M2() {
  if (1 === g4.push(this)) (n.requestAnimationFrame || A2)(F2);
}

// src/marks.ts
var MARKS = { fault: "fault", test: "test", tag: "tag" };
function readMarks(lines3) {
  const found = [];
  for (const line of lines3) {
    if (line.kind && Object.hasOwn(MARKS, line.kind) && typeof line.r === "number" && typeof line.text === "string") found.push({ kind: line.kind, r: line.r, text: line.text });
  }
  return found.sort((a5, b3) => a5.r - b3.r);
}
var markPosition = (mark, model2, scale2) => scale2.of(model2.countUpTo(mark.r));
var markTime = (mark, model2) => model2.writes[model2.countUpTo(mark.r) - 1]?.t ?? null;
var marksNear = (marks2, position, distance, model2, scale2) => marks2.filter((mark) => Math.abs(markPosition(mark, model2, scale2) - position) <= distance);

// src/model.ts
var keyOf = (kind, namespace, name) => `${kind}/${namespace}/${name}`;
var rowKey = (row) => keyOf(row.k, row.n ?? "", row.m);
function partsOf(key) {
  const first = key.indexOf("/");
  const second2 = key.indexOf("/", first + 1);
  return { kind: key.slice(0, first), namespace: key.slice(first + 1, second2), name: key.slice(second2 + 1) };
}
var COMPONENTS = ["system:kube-", "system:node:", "system:serviceaccount:kube-system:", "system:kstore", "system:apiserver", "system:controllers", "system:scheduler"];
var isComponent = (user) => COMPONENTS.some((prefix) => user.startsWith(prefix));
var programOf = (agent) => agent.split("/")[0] || "unknown";
var GAP = /^kstore-record \(gap (\d+) s\)/;
function writerOf(write2) {
  const program = programOf(write2.agent);
  if (write2.gap) return `the recorder, after ${write2.gap} s that it missed`;
  if (!write2.user) return "unknown";
  return isComponent(write2.user) ? program : `${write2.user} (${program})`;
}
var Model = class {
  /** Revision of the window's first state. */
  base;
  /** Rows at the cursor. */
  rows = /* @__PURE__ */ new Map();
  writes = [];
  /** Number of writes that the rows contain. */
  at = 0;
  /** Indexes of the writes to each object. */
  byKey = /* @__PURE__ */ new Map();
  /** Indexes of the writes that name a revision as cause. */
  effects = /* @__PURE__ */ new Map();
  /** Stretches whose changes a recording does not have, by their ends. */
  gaps = [];
  /** Rows of the window's first state. */
  first = /* @__PURE__ */ new Map();
  head = /* @__PURE__ */ new Map();
  constructor(base) {
    this.base = base;
  }
  /** Adds a row of the first state. */
  addRow(row) {
    const key = rowKey(row);
    this.first.set(key, row);
    this.rows.set(key, row);
    this.head.set(key, row);
  }
  /** Adds the next revision. The cursor follows if it was at the newest one and `follow` says so. */
  add(line, follow2) {
    if (line.r <= this.newest()) return;
    const [user, agent, verb] = line.w ?? ["", "", ""];
    const causes = line.c ?? [];
    const touches = line.o.map(([kind, namespace, name, effect, row]) => {
      const key = keyOf(kind, namespace, name);
      const before = this.head.get(key) ?? null;
      if (row) this.head.set(key, row);
      else this.head.delete(key);
      return { key, effect, before, after: row };
    });
    const last2 = this.writes.length ? this.writes[this.writes.length - 1].t : 0;
    const t4 = line.t ? Math.max(line.t / 1e3, last2) : last2;
    const index = this.writes.length;
    const outside = causes.length === 0 && user !== "" && !isComponent(user);
    const gap = Number(GAP.exec(agent)?.[1] ?? 0);
    if (gap) this.gaps.push({ from: Math.min(index, this.countUpToTime(t4 - gap * 1e3)), to: index + 1, seconds: gap });
    this.writes.push({ r: line.r, t: t4, user, agent, verb, causes, touches, outside, gap });
    for (const touch of touches) push(this.byKey, touch.key, index);
    for (const cause of causes) push(this.effects, cause, index);
    if (follow2 && this.at === index) this.seek(index + 1);
  }
  /** The newest revision. */
  newest() {
    return this.writes.length ? this.writes[this.writes.length - 1].r : this.base;
  }
  /** The revision of the cursor. */
  revision() {
    return this.at ? this.writes[this.at - 1].r : this.base;
  }
  /** The write that made the state at the cursor. */
  current() {
    return this.at ? this.writes[this.at - 1] : null;
  }
  /** The number of writes up to a revision. */
  countUpTo(revision2) {
    return this.countWhile((write2) => write2.r <= revision2);
  }
  /** The number of writes up to a time. */
  countUpToTime(time) {
    return this.countWhile((write2) => write2.t <= time);
  }
  /** The number of first writes that are so; after one that is not so, none is. */
  countWhile(isBefore) {
    let low = 0;
    let high = this.writes.length;
    while (low < high) {
      const middle = low + high >> 1;
      if (isBefore(this.writes[middle])) low = middle + 1;
      else high = middle;
    }
    return low;
  }
  /** The write with a revision. */
  find(revision2) {
    const write2 = this.writes[this.countUpTo(revision2) - 1];
    return write2 && write2.r === revision2 ? write2 : null;
  }
  /** Moves the rows to the state after a number of writes. */
  seek(count2) {
    const wanted = Math.max(0, Math.min(count2, this.writes.length));
    for (; this.at < wanted; this.at++) {
      for (const touch of this.writes[this.at].touches) set(this.rows, touch.key, touch.after);
    }
    for (; this.at > wanted; this.at--) {
      const touches = this.writes[this.at - 1].touches;
      for (let i4 = touches.length - 1; i4 >= 0; i4--) set(this.rows, touches[i4].key, touches[i4].before);
    }
  }
  /** Index of the outside write next to the cursor, in a direction; the end of the window if there is none. */
  nextOutside(step) {
    for (let count2 = this.at + step; count2 > 0 && count2 <= this.writes.length; count2 += step) {
      if (this.writes[count2 - 1].outside) return count2;
    }
    return step > 0 ? this.writes.length : 0;
  }
  /** The newest write to an object up to the cursor. */
  lastWrite(key, only = () => true) {
    const indexes = this.byKey.get(key) ?? [];
    for (let i4 = indexes.length - 1; i4 >= 0; i4--) {
      if (indexes[i4] < this.at && only(this.writes[indexes[i4]])) return this.writes[indexes[i4]];
    }
    return null;
  }
  /** Number of writes that follow from one, with theirs. */
  consequences(revision2, most = 1e4) {
    const seen = /* @__PURE__ */ new Set();
    const open2 = [revision2];
    while (open2.length && seen.size < most) {
      for (const index of this.effects.get(open2.pop()) ?? []) {
        if (!seen.has(index)) {
          seen.add(index);
          open2.push(this.writes[index].r);
        }
      }
    }
    return seen.size;
  }
};
function push(map, key, value) {
  const list = map.get(key);
  if (!list) map.set(key, [value]);
  else if (list[list.length - 1] !== value) list.push(value);
}
function set(rows2, key, row) {
  if (row) rows2.set(key, row);
  else rows2.delete(key);
}

// src/source.ts
var Refusal = class extends Error {
  constructor(code, message2) {
    super(message2);
    this.code = code;
  }
  code;
};

// src/report.ts
var FIRST_LINE = /^KSTORE-REPORT ([0-9]{1,9})\n/;
var VERSION = 1;
var TYPE_BYTES = 8;
var HEAD_BYTES = TYPE_BYTES + 4;
var MOST_INFLATED = 256 * 1024 * 1024;
var isMembers = (value) => typeof value === "object" && value !== null && !Array.isArray(value);
var applyEdits = (value, edits) => edits.reduce((before, edit) => edited(before, edit, 0), value);
function edited(value, edit, depth) {
  const [path] = edit;
  if (depth === path.length) return edit[1] ?? null;
  const part = path[depth];
  if (typeof part === "number") {
    const items = Array.isArray(value) ? [...value] : [];
    items[part] = edited(items[part] ?? null, edit, depth + 1);
    return items;
  }
  const members = isMembers(value) ? { ...value } : {};
  if (edit.length === 1 && depth === path.length - 1) {
    delete members[part];
    return members;
  }
  const inner = edited(Object.hasOwn(members, part) ? members[part] : null, edit, depth + 1);
  Object.defineProperty(members, part, { value: inner, enumerable: true, configurable: true, writable: true });
  return members;
}
async function readChunks(text2) {
  let data;
  try {
    data = Uint8Array.from(atob(text2.trim()), (char) => char.charCodeAt(0));
  } catch {
    throw damaged("its data are no base64");
  }
  const head = FIRST_LINE.exec(new TextDecoder("latin1").decode(data.subarray(0, 32)));
  if (!head) throw damaged("its data begin with another line");
  if (Number(head[1]) > VERSION) throw new Refusal(0, `The report has version ${head[1]} of the format, and this page reads up to version ${VERSION}.`);
  const chunks = /* @__PURE__ */ new Map();
  let room = MOST_INFLATED;
  for (let at = head[0].length; at < data.length; ) {
    if (at + HEAD_BYTES > data.length) throw damaged("it ends within a chunk");
    const kind = new TextDecoder("latin1").decode(data.subarray(at, at + TYPE_BYTES)).trimEnd();
    const length = new DataView(data.buffer, data.byteOffset + at + TYPE_BYTES, 4).getUint32(0, true);
    at += HEAD_BYTES;
    if (at + length > data.length) throw damaged(`it ends within the chunk ${kind}`);
    const inflated = await inflate(data.subarray(at, at + length), room, kind);
    room -= inflated.length;
    at += length;
    try {
      chunks.set(kind, inflated.split("\n").filter(Boolean).map((line) => JSON.parse(line)));
    } catch {
      throw damaged(`the chunk ${kind} has a line that is no JSON`);
    }
  }
  return chunks;
}
var damaged = (what) => new Refusal(0, `The report is damaged: ${what}.`);
async function inflate(bytes3, room, kind) {
  const parts = [];
  let length = 0;
  try {
    const stream2 = new Blob([bytes3]).stream().pipeThrough(new DecompressionStream("deflate")).pipeThrough(new TextDecoderStream());
    for (const reader = stream2.getReader(); length <= room; ) {
      const { done, value } = await reader.read();
      if (done) return parts.join("");
      parts.push(value);
      length += value.length;
    }
  } catch {
    throw damaged(`the chunk ${kind} cannot be inflated`);
  }
  throw damaged(`it inflates beyond ${MOST_INFLATED / 1024 / 1024} MiB`);
}
var Report = class _Report {
  constructor(about2, kinds2, rows2) {
    this.about = about2;
    this.kinds = kinds2;
    this.rowsAtFirst = new Map(rows2.map((row) => [rowKey(row), row]));
  }
  about;
  kinds;
  first = /* @__PURE__ */ new Map();
  states = /* @__PURE__ */ new Map();
  lines = [];
  rowsAtFirst;
  /** What the scheduler says about pods, by their keys. */
  said = /* @__PURE__ */ new Map();
  /** The last reading of the server's metrics; null: there is none. */
  reading = null;
  marks = [];
  /** Reads a data element. */
  static async open(text2) {
    const chunks = await readChunks(text2);
    const [about2] = chunks.get("meta") ?? [];
    const [head, ...rows2] = chunks.get("rows") ?? [];
    if (!about2 || !head) throw damaged("it has no rows");
    const report2 = new _Report(about2, head.kinds, rows2);
    for (const [kind, namespace, name, state] of chunks.get("base") ?? []) report2.first.set(keyOf(kind, namespace, name), state);
    for (const placement2 of chunks.get("attempts") ?? []) {
      const key = `pods/${placement2.pod}`;
      report2.said.set(key, [...report2.said.get(key) ?? [], placement2]);
    }
    report2.reading = (chunks.get("server") ?? []).at(-1) ?? null;
    report2.marks = readMarks(chunks.get("marks") ?? []);
    report2.follow(chunks.get("changes") ?? []);
    return report2;
  }
  /** Makes lines with whole rows of lines with edits. */
  follow(lines3) {
    const rows2 = new Map(this.rowsAtFirst);
    for (const line of lines3) {
      const objects = line.o.map(([kind, namespace, name, effect, shown, body]) => {
        const key = keyOf(kind, namespace, name);
        const row = Array.isArray(shown) ? applyEdits(rows2.get(key) ?? null, shown) : shown;
        if (row) rows2.set(key, row);
        else rows2.delete(key);
        const known = this.states.get(key);
        const state = { revision: line.r, isDeleted: effect === "deleted", body };
        if (known) known.push(state);
        else this.states.set(key, [state]);
        return [kind, namespace, name, effect, row];
      });
      this.lines.push({ ...line, o: objects });
    }
  }
  /** What the scheduler says about the pods of a name. */
  placements(key) {
    return this.said.get(key) ?? [];
  }
  revisions() {
    const { from, clock: clock2, user } = this.about;
    return Promise.resolve({ from, clock: clock2, user, compacted: from, newest: { revision: this.lines.at(-1)?.r ?? from }, tags: [] });
  }
  rows(_at, _signal, add4) {
    this.rowsAtFirst.forEach((row) => add4(row));
    return Promise.resolve({ kinds: this.kinds, isCut: false });
  }
  /** All lines at once. The stream does not end by itself: nothing new comes. */
  changes(after, signal, add4) {
    add4(this.lines.filter((line) => line.r > after), true);
    return new Promise((resolve) => signal.addEventListener("abort", () => resolve()));
  }
  objectAt(kind, namespace, name, revision2) {
    const key = keyOf(kind.resource, namespace, name);
    let state = this.first.get(key);
    let exists = state !== void 0 || this.rowsAtFirst.has(key);
    let isLeftOut = exists && state === void 0;
    for (const next of this.states.get(key) ?? []) {
      if (next.revision > revision2) break;
      exists = !next.isDeleted;
      isLeftOut = exists && next.body === null;
      if (next.isDeleted) state = void 0;
      else if (next.body !== null) state = isEdits(next.body) ? applyEdits(state ?? null, next.body) : next.body;
    }
    if (!exists) return Promise.resolve(null);
    if (isLeftOut || state === void 0) return Promise.reject(new Refusal(0, "This state is not in the report; the overview says what was left out."));
    return Promise.resolve(state);
  }
};
var isEdits = (body) => Array.isArray(body);

// src/data.ts
var KEY = "kstore-ui-key";
var element = typeof document === "undefined" ? null : document.getElementById("kstore-report");
var isReport = element !== null;
var report = null;
var aboutReport = () => report?.about ?? null;
var reportReading = () => report?.reading ?? null;
var reportPlacements = (key) => report?.placements(key) ?? [];
var marksOf = ({ tags }) => report?.marks ?? (tags ?? []).map(({ name, revision: revision2 }) => ({ kind: "tag", r: revision2, text: name })).sort((a5, b3) => a5.r - b3.r);
async function login() {
  if (element) {
    report = await Report.open(element.textContent ?? "");
    return true;
  }
  const token = /^#login=([A-Za-z0-9_-]+)$/.exec(location.hash)?.[1];
  if (!token) return sessionStorage.getItem(KEY) !== null;
  history.replaceState(null, "", `${location.pathname}#/`);
  const response = await fetch("session", { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ token }) });
  if (!response.ok) throw await refusal(response);
  const answer = await response.json();
  sessionStorage.setItem(KEY, answer.key);
  return true;
}
function forget() {
  sessionStorage.removeItem(KEY);
}
async function open(path, signal) {
  if (isReport) throw new Refusal(0, "A report has no server that could be asked.");
  const headers = { "kstore-ui": sessionStorage.getItem(KEY) ?? "", accept: "application/json" };
  const response = await fetch(path, { headers, cache: "no-store", redirect: "error", ...signal ? { signal } : {} });
  if (!response.ok) throw await refusal(response);
  return response;
}
async function refusal(response) {
  const text2 = await response.text().catch(() => "");
  let message2 = text2.trim() || response.statusText;
  try {
    message2 = JSON.parse(text2).message ?? message2;
  } catch {
  }
  return new Refusal(response.status, message2.slice(0, 500));
}
var source = () => report ?? server;
var revisions = () => source().revisions();
var rows = (at, signal, add4) => source().rows(at, signal, add4);
var changes = (after, signal, add4) => source().changes(after, signal, add4);
var objectAt = (kind, namespace, name, revision2) => source().objectAt(kind, namespace, name, revision2);
var server = {
  revisions: async () => (await open("/kstore/v1/revisions")).json(),
  rows: rowsOfServer,
  changes: changesOfServer,
  objectAt: objectOfServer
};
async function* lines(path, signal) {
  const response = await open(path, signal);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (; ; ) {
    const { done, value } = await reader.read();
    if (done) break;
    const parts = (rest + value).split("\n");
    rest = parts.pop() ?? "";
    if (parts.length) yield parts.filter(Boolean).map((line) => JSON.parse(line));
  }
  if (rest) throw new Refusal(502, "the answer ends within a line");
}
async function rowsOfServer(at, signal, add4) {
  let kinds2 = [];
  let end = null;
  for await (const part of lines(`/kstore/v1/rows?at=${at}`, signal)) {
    for (const line of part) {
      if (line.error) throw new Refusal(line.error.code, line.error.message);
      if (line.kinds) kinds2 = line.kinds;
      else if (line.end !== void 0) end = { cut: line.cut === true };
      else add4(line);
    }
  }
  if (!end) throw new Refusal(502, "the rows end before their last line");
  return { kinds: kinds2, isCut: end.cut };
}
async function changesOfServer(after, signal, add4) {
  let isCurrent = false;
  for await (const part of lines(`/kstore/v1/changes?after=${after}&follow=1`, signal)) {
    const found = [];
    for (const line of part) {
      if (line.error) throw new Refusal(line.error.code, line.error.message);
      if (line.now !== void 0) isCurrent = true;
      else found.push(line);
    }
    add4(found, isCurrent);
  }
}
async function placement(namespace, name, at, signal) {
  const query = new URLSearchParams({ pod: `${namespace}/${name}` });
  if (at !== null) query.set("at", String(at));
  return (await open(`placement?${query}`, signal)).json();
}
var metrics = async (signal) => (await open("/metrics", signal)).text();
var serverVersion = async () => (await open("/version")).json();
var states = /* @__PURE__ */ new Map();
var MOST_STATES = 200;
function objectOfServer(kind, namespace, name, revision2) {
  const group = kind.group ? `/apis/${kind.group}` : "/api";
  const scope = kind.namespaced ? `/namespaces/${encodeURIComponent(namespace)}` : "";
  const path = `${group}/${kind.version}${scope}/${kind.plural}/${encodeURIComponent(name)}?resourceVersion=${revision2}&resourceVersionMatch=Exact`;
  const known = states.get(path);
  if (known) return known;
  const read3 = open(path).then((response) => response.json()).catch((error) => {
    if (error instanceof Refusal && error.code === 404) return null;
    states.delete(path);
    throw error;
  });
  states.set(path, read3);
  if (states.size > MOST_STATES) states.delete(states.keys().next().value);
  return read3;
}

// src/tree.ts
var WORKLOADS = ["deployments.apps", "statefulsets.apps", "daemonsets.apps", "jobs.batch", "cronjobs.batch", "replicasets.apps", "replicationcontrollers"];
var NO_PART = ["events"];
var Tree = class {
  constructor(rows2) {
    this.rows = rows2;
    for (const row of rows2.values()) {
      if (NO_PART.includes(row.k)) continue;
      if (row.u) this.byUid.set(row.u, row);
      if (row.o) {
        const list = this.owned.get(row.o);
        if (list) list.push(row);
        else this.owned.set(row.o, [row]);
      }
    }
  }
  rows;
  byUid = /* @__PURE__ */ new Map();
  owned = /* @__PURE__ */ new Map();
  get(uid) {
    return uid && this.byUid.get(uid) || null;
  }
  /** The owners of a row, the nearest first. */
  owners(row) {
    const found = [];
    for (let owner = this.get(row.o); owner && found.length < 10; owner = this.get(owner.o)) found.push(owner);
    return found;
  }
  /** What a row owns itself, sorted. */
  children(row) {
    return [...row.u && this.owned.get(row.u) || []].sort(byName);
  }
  /** The topmost owner of a row, or the row. */
  root(row) {
    const owners = this.owners(row);
    return owners.length ? owners[owners.length - 1] : row;
  }
  /** What runs pods, with its pods, those in need first. */
  workloads(namespace) {
    const found = /* @__PURE__ */ new Map();
    for (const row of this.rows.values()) {
      if (namespace && row.n !== namespace) continue;
      const isPod = row.k === "pods";
      if (!isPod && !(WORKLOADS.includes(row.k) && !this.get(row.o))) continue;
      const root = isPod ? this.root(row) : row;
      const top = root.k === "nodes" ? row : root;
      const key = rowKey(top);
      const workload = found.get(key) ?? { row: top, pods: [] };
      if (isPod) workload.pods.push(row);
      found.set(key, workload);
    }
    const ranked = [...found.values()].map((workload) => ({ workload, rank: urgency(workload) }));
    return ranked.sort((a5, b3) => a5.rank - b3.rank || byName(a5.workload.row, b3.workload.row)).map(({ workload }) => workload);
  }
  /** Pods of each node, and those without a node under the empty name. */
  podsByNode(namespace) {
    const found = /* @__PURE__ */ new Map();
    for (const row of this.rows.values()) {
      if (row.k === "nodes") found.set(row.m, found.get(row.m) ?? []);
      if (row.k !== "pods" || namespace && row.n !== namespace || row.s === "done") continue;
      const node = row.d ?? "";
      const list = found.get(node);
      if (list) list.push(row);
      else found.set(node, [row]);
    }
    for (const pods of found.values()) pods.sort(plainly);
    return new Map([...found.entries()].sort(([a5], [b3]) => a5 === "" ? 1 : b3 === "" ? -1 : natural(a5, b3)));
  }
};
var BAD = ["failed", "unready", "pending", "progress", "ending"];
function urgency({ row, pods }) {
  let worst = BAD.length;
  for (const { s: s4 } of [row, ...pods]) {
    const at = BAD.indexOf(s4 ?? "");
    if (at >= 0 && at < worst) worst = at;
  }
  return worst < 3 ? worst : BAD.length;
}
var collator = new Intl.Collator("en", { numeric: true });
var natural = (a5, b3) => a5 === b3 ? 0 : collator.compare(a5, b3);
var byName = (a5, b3) => natural(a5.n ?? "", b3.n ?? "") || natural(a5.k, b3.k) || natural(a5.m, b3.m);
var plainly = (a5, b3) => a5.m < b3.m ? -1 : a5.m > b3.m ? 1 : 0;

// src/lanes.ts
var QUIET = /* @__PURE__ */ new Set([
  "events",
  "endpoints",
  "endpointslices.discovery.k8s.io",
  "controllerrevisions.apps",
  "serviceaccounts",
  "namespaces",
  "clusterroles.rbac.authorization.k8s.io",
  "clusterrolebindings.rbac.authorization.k8s.io",
  "roles.rbac.authorization.k8s.io",
  "rolebindings.rbac.authorization.k8s.io",
  "flowschemas.flowcontrol.apiserver.k8s.io",
  "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io",
  "priorityclasses.scheduling.k8s.io",
  "apiservices.apiregistration.k8s.io",
  "csinodes.storage.k8s.io"
]);
var MOST = 5e3;
var isQuiet = (kind) => QUIET.has(kind);
function lanes(model2, grouping, wanted) {
  const all = /* @__PURE__ */ new Map();
  const uids = /* @__PURE__ */ new Map();
  const keys = /* @__PURE__ */ new Set([...model2.first.keys(), ...model2.byKey.keys()]);
  for (const key of keys) {
    const lane = laneOf(model2, key);
    if (!lane || !wanted(lane.row)) continue;
    all.set(key, lane);
    if (lane.row.u) uids.set(lane.row.u, lane);
    if (all.size >= MOST) break;
  }
  if (grouping === "owner") return byOwner([...all.values()], uids);
  const group = (lane) => grouping === "kind" ? lane.row.k : lane.row.k === "nodes" ? lane.row.m : lane.row.d ?? "￿";
  return [...all.values()].sort((a5, b3) => natural(group(a5), group(b3)) || Number(b3.row.k === "nodes") - Number(a5.row.k === "nodes") || byBirth(a5, b3));
}
function laneOf(model2, key) {
  const marks2 = model2.byKey.get(key) ?? [];
  const first = model2.first.get(key) ?? null;
  const lives = [];
  let row = first;
  let open2 = first ? { from: 0, to: 0, state: first.s ?? "" } : null;
  for (const index of marks2) {
    const touch = model2.writes[index].touches.find((own2) => own2.key === key);
    if (!touch) continue;
    const state = touch.after?.s ?? "";
    const isSame = open2 && touch.after && open2.state === state && touch.before?.u === touch.after.u;
    if (!isSame) {
      if (open2) lives.push({ ...open2, to: index + 1 });
      open2 = touch.after ? { from: index + 1, to: 0, state } : null;
    }
    row = touch.after ?? row ?? touch.before;
  }
  if (open2) lives.push({ ...open2, to: Number.POSITIVE_INFINITY });
  return row ? { key, row, depth: 0, lives, marks: marks2 } : null;
}
var RANK = ["nodes", "deployments.apps", "statefulsets.apps", "daemonsets.apps", "cronjobs.batch", "jobs.batch", "replicasets.apps", "pods"];
var rank = (lane) => {
  const at = RANK.indexOf(lane.row.k);
  return at < 0 ? RANK.length : at;
};
var birth = (lane) => lane.lives[0]?.from ?? 0;
var byBirth = (a5, b3) => rank(a5) - rank(b3) || birth(a5) - birth(b3) || natural(a5.row.m, b3.row.m);
function byOwner(all, uids) {
  const below2 = /* @__PURE__ */ new Map();
  const roots = [];
  for (const lane of all) {
    const owner = lane.row.o ? uids.get(lane.row.o) : void 0;
    if (!owner || owner === lane) roots.push(lane);
    else below2.set(owner, [...below2.get(owner) ?? [], lane]);
  }
  const found = [];
  const seen = /* @__PURE__ */ new Set();
  const add4 = (lane, depth) => {
    if (seen.has(lane) || depth > 20) return;
    seen.add(lane);
    found.push({ ...lane, depth });
    for (const child of (below2.get(lane) ?? []).sort(byBirth)) add4(child, depth + 1);
  };
  const place2 = (lane) => lane.row.k === "nodes" ? 2 : below2.has(lane) ? 0 : rank(lane) < RANK.length ? 1 : 3;
  roots.sort((a5, b3) => place2(a5) - place2(b3) || byBirth(a5, b3)).forEach((root) => add4(root, 0));
  return found;
}
function arrows(model2, revision2) {
  const write2 = model2.find(revision2);
  if (!write2) return [];
  const found = [];
  const own2 = write2.touches[0]?.key;
  if (!own2) return [];
  for (const cause of write2.causes) {
    const before = model2.find(cause);
    if (before?.touches[0]) found.push({ from: before.touches[0].key, fromRevision: cause, to: own2, toRevision: revision2 });
  }
  for (const index of (model2.effects.get(revision2) ?? []).slice(0, 200)) {
    const after = model2.writes[index];
    if (after.touches[0]) found.push({ from: own2, fromRevision: revision2, to: after.touches[0].key, toRevision: after.r });
  }
  return found;
}
var kindNames = /* @__PURE__ */ new Map();
var kindName = (resource) => kindNames.get(resource) ?? resource;
var shortName = (key) => {
  const { kind, name } = partsOf(key);
  return `${kindName(kind)} ${name}`;
};

// src/store.ts
var store_exports = {};
__export(store_exports, {
  about: () => about,
  address: () => address,
  behind: () => behind,
  go: () => go,
  isConnected: () => isConnected,
  isCut: () => isCut,
  isLive: () => isLive,
  isPlaying: () => isPlaying,
  kinds: () => kinds,
  marks: () => marks,
  message: () => message,
  model: () => model,
  moveTo: () => moveTo,
  now: () => now,
  phase: () => phase,
  revision: () => revision,
  route: () => route,
  scale: () => scale,
  showsHelp: () => showsHelp,
  showsTables: () => showsTables,
  start: () => start,
  theme: () => theme,
  toggleTheme: () => toggleTheme,
  tree: () => tree,
  version: () => version
});

// src/route.ts
var HOME = { view: "overview", subject: "", at: null, namespace: "", search: "", write: null, mark: null };
function parse(hash) {
  const text2 = hash.replace(/^#\/?/, "");
  const mark = text2.indexOf("?");
  const path = mark < 0 ? text2 : text2.slice(0, mark);
  const query = new URLSearchParams(mark < 0 ? "" : text2.slice(mark + 1));
  const parts = path.split("/").map(decode);
  const view = ["timeline", "object", "list", "compare", "scheduling", "server"].find((known) => known === parts[0]) ?? "overview";
  const number = (name) => /^[1-9][0-9]{0,15}$/.test(query.get(name) ?? "") ? Number(query.get(name)) : null;
  const route2 = { view, subject: "", at: number("at"), namespace: query.get("ns") ?? "", search: query.get("q") ?? "", write: number("write"), mark: number("mark") };
  if (view === "object") {
    if (parts.length < 3) return { ...route2, view: "overview" };
    const [, kind, ...rest] = parts;
    const namespace = rest.length > 1 ? rest[0] : "";
    route2.subject = `${kind}/${namespace}/${rest[rest.length - 1]}`;
  } else if (view === "list") {
    route2.subject = parts[1] ?? "";
  } else if (view === "scheduling" && parts.length === 3) {
    route2.subject = `pods/${parts[1]}/${parts[2]}`;
  }
  return route2;
}
function format(route2) {
  let path = route2.view === "overview" ? "" : route2.view;
  if (route2.view === "object") {
    const [kind, namespace, ...name] = route2.subject.split("/");
    path += `/${encodeURIComponent(kind)}${namespace ? `/${encodeURIComponent(namespace)}` : ""}/${encodeURIComponent(name.join("/"))}`;
  } else if (route2.view === "list" && route2.subject) {
    path += `/${encodeURIComponent(route2.subject)}`;
  } else if (route2.view === "scheduling" && route2.subject) {
    path += route2.subject.split("/").slice(1).map((part) => `/${encodeURIComponent(part)}`).join("");
  }
  const query = new URLSearchParams();
  if (route2.at !== null) query.set("at", String(route2.at));
  if (route2.namespace) query.set("ns", route2.namespace);
  if (route2.search) query.set("q", route2.search);
  if (route2.write !== null) query.set("write", String(route2.write));
  if (route2.mark !== null) query.set("mark", String(route2.mark));
  const text2 = query.toString();
  return `#/${path}${text2 ? `?${text2}` : ""}`;
}
function decode(text2) {
  try {
    return decodeURIComponent(text2);
  } catch {
    return text2;
  }
}

// src/scale.ts
var FOLD = 2e3;
var STEP = 12;
var Scale = class {
  /** Position of each write on the axis. */
  positions = [];
  /** Indexes of writes before which a stretch is folded. */
  folds = [];
  last = 0;
  /** Adds the next write. */
  add(time) {
    const index = this.positions.length;
    if (index === 0) {
      this.positions.push(STEP);
    } else {
      const gap = Math.max(0, time - this.last);
      if (gap > FOLD) this.folds.push(index);
      this.positions.push(this.positions[index - 1] + Math.min(gap, FOLD) + STEP);
    }
    this.last = time;
  }
  /** Length of the axis. */
  length() {
    return (this.positions.length ? this.positions[this.positions.length - 1] : 0) + FOLD / 20;
  }
  /** Position of the state after a number of writes. */
  of(count2) {
    return count2 <= 0 ? 0 : this.positions[Math.min(count2, this.positions.length) - 1] ?? 0;
  }
  /** The number of writes up to a position. */
  countAt(position) {
    let low = 0;
    let high = this.positions.length;
    while (low < high) {
      const middle = low + high >> 1;
      if (this.positions[middle] <= position) low = middle + 1;
      else high = middle;
    }
    return low;
  }
};
function bins(scale2, outside, from, to, count2) {
  const result = { all: new Array(count2).fill(0), outside: new Array(count2).fill(0) };
  const width = (to - from) / count2;
  if (width <= 0) return result;
  for (let index = scale2.countAt(from - 1e-9); index < scale2.positions.length && scale2.positions[index] <= to; index++) {
    const bin = Math.min(count2 - 1, Math.floor((scale2.positions[index] - from) / width));
    result.all[bin]++;
    if (outside(index)) result.outside[bin]++;
  }
  return result;
}

// src/store.ts
function storage() {
  try {
    return localStorage;
  } catch {
    return null;
  }
}
var phase = y3("start");
var message = y3("");
var about = y3(null);
var kinds = y3(/* @__PURE__ */ new Map());
var isCut = y3(false);
var marks = y3([]);
var isConnected = y3(false);
var version = y3(0);
var isLive = y3(true);
var route = y3(HOME);
var theme = y3(storage()?.getItem("kstore-ui-theme") ?? "");
var isPlaying = y3(false);
var showsHelp = y3(false);
var showsTables = y3(false);
var behind = O2(() => (void version.value, model.writes.length - model.at));
var model = new Model(0);
var scale = new Scale();
var tree = O2(() => (void version.value, new Tree(model.rows)));
var revision = O2(() => (void version.value, model.revision()));
var controller = new AbortController();
async function start() {
  addEventListener("hashchange", follow);
  for (const name of ["offline", "online"]) addEventListener(name, () => controller.abort());
  try {
    if (!await login()) {
      phase.value = "login";
      return;
    }
  } catch (error) {
    fail(error);
    return;
  }
  follow();
  await run();
}
async function run() {
  let isLoaded = false;
  for (let failures = 0; ; ) {
    controller = new AbortController();
    try {
      if (!isLoaded) await load();
      await stream(!isLoaded, () => {
        isLoaded = true;
        failures = 0;
      });
    } catch (error) {
      isConnected.value = false;
      const code = error instanceof Refusal ? error.code : 0;
      if (code === 401 || code === 403) {
        fail(error);
        return;
      }
      if (phase.value !== "ready") fail(error);
      if (code === 410 || code === 504) isLoaded = false;
      failures++;
      await pause(Math.min(1e4, 250 * 2 ** failures));
    }
  }
}
async function load() {
  if (phase.value !== "ready") {
    phase.value = "load";
    message.value = "asking for revisions";
  }
  const found = await revisions();
  const next = new Model(found.from);
  let count2 = 0;
  const read3 = await rows(found.from, controller.signal, (row) => {
    next.addRow(row);
    if (++count2 % 500 === 0) message.value = `${count2} objects at revision ${found.from}`;
  });
  for (const kind of read3.kinds) kindNames.set(kind.resource, kind.kind);
  r3(() => {
    model = next;
    scale = new Scale();
    about.value = found;
    marks.value = marksOf(found);
    isCut.value = read3.isCut;
    kinds.value = new Map(read3.kinds.map((kind) => [kind.resource, kind]));
  });
}
var MOST_WRITES = 4e4;
async function stream(isNew, arrived) {
  let isPast = isNew;
  for (; ; ) {
    await changes(model.newest(), controller.signal, (lines3, isCurrent) => {
      for (const line of lines3) add(line);
      if (isLive.value && model.writes.length > MOST_WRITES) throw new Refusal(410, "the window is full");
      if (isPast && !isCurrent) {
        message.value = `${model.writes.length} revisions`;
        return;
      }
      arrived();
      isConnected.value = true;
      if (isPast) {
        isPast = false;
        phase.value = "ready";
        if (route.value.at !== null) goTo(route.value.at);
      }
      changed();
    });
    isConnected.value = false;
    await pause(200);
  }
}
function add(line) {
  const before = model.writes.length;
  model.add(line, isLive.value);
  if (model.writes.length > before) scale.add(model.writes[before].t);
}
var isScheduled = false;
function changed() {
  if (isScheduled) return;
  isScheduled = true;
  const show = () => {
    isScheduled = false;
    version.value++;
  };
  if (document.hidden) setTimeout(show, 500);
  else requestAnimationFrame(show);
}
function fail(error) {
  const isLogin = error instanceof Refusal && error.code === 401;
  if (isLogin) forget();
  phase.value = isLogin ? "login" : "failed";
  message.value = error instanceof Error ? error.message : String(error);
}
var pause = (time) => new Promise((resolve) => setTimeout(resolve, time));
function follow() {
  if (location.hash.startsWith("#login=")) {
    location.reload();
    return;
  }
  const next = parse(location.hash);
  const before = route.value;
  route.value = next;
  if (next.at !== before.at && phase.value === "ready") {
    if (next.at === null) now();
    else goTo(next.at);
  } else if (next.at !== null) {
    isLive.value = false;
  }
}
function go(part, replaces = false) {
  const next = { ...route.value, ...part };
  const address2 = format(next);
  if (address2 === (location.hash || "#/")) return;
  route.value = next;
  if (replaces) history.replaceState(null, "", address2);
  else location.hash = address2;
}
var address = (part) => format({ ...route.value, write: null, ...part });
var settled;
function moveTo(count2) {
  model.seek(count2);
  isLive.value = false;
  changed();
  clearTimeout(settled);
  settled = setTimeout(() => go({ at: model.revision() }, true), 120);
}
var goTo = (wanted) => {
  isLive.value = false;
  model.seek(model.countUpTo(wanted));
  changed();
};
function now() {
  clearTimeout(settled);
  isPlaying.value = false;
  isLive.value = true;
  model.seek(model.writes.length);
  changed();
  go({ at: null }, true);
}
var player;
x2(() => {
  clearInterval(player);
  if (!isPlaying.value) return;
  if (model.at >= model.writes.length) model.seek(0);
  player = setInterval(() => {
    if (model.at >= model.writes.length) now();
    else moveTo(model.at + 1);
  }, 120);
});
x2(() => {
  document.documentElement.dataset.theme = theme.value;
  if (theme.value) storage()?.setItem("kstore-ui-theme", theme.value);
});
function toggleTheme() {
  const isDark = theme.value ? theme.value === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  theme.value = isDark ? "light" : "dark";
}

// src/change.ts
var MOST2 = 2e3;
var DEPTH = 64;
var KEYS = [["uid"], ["name"], ["type"], ["containerPort", "protocol"], ["port", "protocol"], ["mountPath"], ["key"], ["ip"]];
var LEFT_OUT = ["managedFields", "resourceVersion", "generation"];
var LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration";
var isMembers2 = (value) => typeof value === "object" && value !== null && !Array.isArray(value);
var equal = (a5, b3) => {
  if (a5 === b3) return true;
  if (Array.isArray(a5) && Array.isArray(b3)) return a5.length === b3.length && a5.every((item, at) => equal(item, b3[at]));
  if (isMembers2(a5) && isMembers2(b3)) {
    const names = Object.keys(a5);
    return names.length === Object.keys(b3).length && names.every((name) => name in b3 && equal(a5[name], b3[name]));
  }
  return false;
};
function changes2(old, now2, allFields = false) {
  const found = [];
  compare("", allFields ? old : withoutRepeats(old), allFields ? now2 : withoutRepeats(now2), DEPTH, found);
  return found;
}
function withoutRepeats(object) {
  if (!isMembers2(object) || !isMembers2(object.metadata)) return object;
  const metadata = { ...object.metadata };
  for (const name of LEFT_OUT) delete metadata[name];
  if (isMembers2(metadata.annotations)) {
    const annotations = { ...metadata.annotations };
    delete annotations[LAST_APPLIED];
    metadata.annotations = annotations;
    if (!Object.keys(annotations).length) delete metadata.annotations;
  }
  return { ...object, metadata };
}
function compare(path, old, now2, depth, found) {
  if (equal(old, now2)) return;
  const before = found.length;
  const keyed = Array.isArray(old) && Array.isArray(now2) && depth > 0 ? itemsOf(old, now2) : null;
  if (isMembers2(old) && isMembers2(now2) && depth > 0) {
    for (const name of [.../* @__PURE__ */ new Set([...Object.keys(old), ...Object.keys(now2)])].sort()) compare(member(path, name), own(old, name), own(now2, name), depth - 1, found);
  } else if (keyed) {
    compareItems(path, keyed[0], keyed[1], depth, found);
  } else {
    found.push({ path, from: old, to: now2 });
  }
  if (found.length - before > MOST2) {
    found.length = before;
    found.push({ path, from: old, to: now2 });
  }
}
var own = (members, name) => Object.hasOwn(members, name) ? members[name] : void 0;
function compareItems(path, old, now2, depth, found) {
  for (const key of /* @__PURE__ */ new Set([...old.keys(), ...now2.keys()])) compare(`${path}[${key}]`, old.get(key), now2.get(key), depth - 1, found);
  const before = [...old.keys()].filter((key) => now2.has(key));
  const after = [...now2.keys()].filter((key) => old.has(key));
  if (!equal(before, after)) found.push({ path: `${path} (order)`, from: before, to: after });
}
function itemsOf(one, other) {
  for (const members of KEYS) {
    const a5 = keyedBy(one, members);
    const b3 = a5 && keyedBy(other, members);
    if (a5 && b3) return [a5, b3];
  }
  return null;
}
function keyedBy(list, members) {
  const items = /* @__PURE__ */ new Map();
  for (const item of list) {
    const parts = members.map((name, at) => {
      const value = isMembers2(item) ? own(item, name) : void 0;
      if (typeof value === "string" || typeof value === "number") return String(value);
      return value === void 0 && at > 0 ? "TCP" : null;
    });
    const key = parts.join("/");
    if (parts.includes(null) || items.has(key)) return null;
    items.set(key, item);
  }
  return items;
}
var member = (path, name) => /[.[ ]/.test(name) ? `${path}[${name}]` : path ? `${path}.${name}` : name;
function masked(object) {
  if (!isMembers2(object) || object.kind !== "Secret") return object;
  const hide = (values) => isMembers2(values) ? Object.fromEntries(Object.entries(values).map(([name, value]) => [name, isMasked(value) ? value : `••• (${bytes(value)} bytes)`])) : values;
  const shown = { ...object };
  for (const part of ["data", "stringData"]) if (part in shown) shown[part] = hide(shown[part]) ?? null;
  return withoutCopies(shown);
}
var COPIES = ["last-applied-configuration", "last-applied", "last-handled-configuration", "original", "original-diff", "original-diff-full", "applied"];
function withoutCopies(secret) {
  const metadata = isMembers2(secret.metadata) ? { ...secret.metadata } : {};
  if (isMembers2(metadata.annotations)) {
    metadata.annotations = Object.fromEntries(Object.entries(metadata.annotations).map(([name, value]) => [name, COPIES.includes(name.slice(name.lastIndexOf("/") + 1)) ? "•••" : value]));
  }
  return { ...secret, metadata };
}
var isMasked = (value) => typeof value === "string" && value.startsWith("•••");
var bytes = (value) => {
  const text2 = typeof value === "string" ? value : "";
  return Math.max(0, Math.floor(text2.length * 3 / 4) - (text2.endsWith("==") ? 2 : text2.endsWith("=") ? 1 : 0));
};
function shownChanges(old, now2) {
  const isSecret = (object) => isMembers2(object) && object.kind === "Secret";
  if (!isSecret(old) && !isSecret(now2)) return changes2(old, now2);
  const bare = (object) => isSecret(object) ? withoutCopies(object) : object;
  const found = changes2(bare(old), bare(now2));
  return found.map((change) => /^(data|stringData)\b/.test(change.path) ? { path: change.path, ..."from" in change && change.from !== void 0 ? { from: "•••" } : {}, ...change.to !== void 0 ? { to: "•••" } : {} } : change);
}
function shortValue(value, width = 120) {
  if (value === void 0) return "–";
  const text2 = typeof value === "string" && value !== "" ? value : JSON.stringify(value);
  const plain = text2.replace(/\n/g, "⏎").replace(/[\u0000-\u001f\u007f]/g, "�");
  return plain.length > width ? `${plain.slice(0, width)}…` : plain;
}

// src/compare.ts
function differing(model2, from, to) {
  const [low, high] = [Math.min(from, to), Math.max(from, to)];
  const found = /* @__PURE__ */ new Map();
  for (let index = low; index < high; index++) {
    for (const touch of model2.writes[index].touches) {
      const known = found.get(touch.key);
      if (known) {
        known.after = touch.after;
        known.writes.push(index);
      } else {
        found.set(touch.key, { key: touch.key, difference: "changed", before: touch.before, after: touch.after, writes: [index] });
      }
    }
  }
  const all = [...found.values()].filter(({ before, after }) => before || after);
  for (const one of all) {
    const isOther = one.before && one.after && one.before.u !== one.after.u;
    one.difference = !one.before || isOther ? "added" : !one.after ? "removed" : "changed";
  }
  return all.sort((a5, b3) => a5.key < b3.key ? -1 : 1);
}

// src/text.ts
var two = (value) => String(value).padStart(2, "0");
function clock(time) {
  if (!time) return "";
  const date = new Date(time);
  return `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}.${String(date.getMilliseconds()).padStart(3, "0")}`;
}
var second = (time) => clock(time).slice(0, 8);
function dateTime(time) {
  const date = new Date(time);
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ${clock(time)}`;
}
function age(milliseconds) {
  const seconds = Math.max(0, Math.floor(milliseconds / 1e3));
  if (seconds < 120) return `${seconds}s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 10) return seconds % 60 ? `${minutes}m${seconds % 60}s` : `${minutes}m`;
  if (minutes < 180) return `${minutes}m`;
  const hours = Math.floor(minutes / 60);
  if (hours < 8) return minutes % 60 ? `${hours}h${minutes % 60}m` : `${hours}h`;
  if (hours < 48) return `${hours}h`;
  return `${Math.floor(hours / 24)}d`;
}
var STATES = {
  "": "exists",
  ready: "ready",
  progress: "in progress",
  unready: "not ready",
  pending: "pending",
  done: "done",
  failed: "failed",
  idle: "idle",
  ending: "being deleted",
  warning: "warning"
};
var count = (number, one, many = `${one}s`) => `${number.toLocaleString("en")} ${number === 1 ? one : many}`;

// src/yaml.ts
var WIDTH = 400;
var TEXT_LINES = 200;
var MOST_LINES = 5e3;
var FIRST = ["apiVersion", "kind", "metadata", "spec", "data", "status"];
function lines2(object) {
  const found = [];
  const branches = managers(object);
  const shown = isFields(object) && isFields(object.metadata) ? { ...object, metadata: without(object.metadata, "managedFields") } : object;
  write(shown, 0, "", "", branches, found, "");
  return found;
}
var isFields = (value) => typeof value === "object" && value !== null && !Array.isArray(value);
var without = (fields, name) => Object.fromEntries(Object.entries(fields).filter(([own2]) => own2 !== name));
var textOf = (value) => typeof value === "string" ? value : "";
function managers(object) {
  const entries = isFields(object) && isFields(object.metadata) ? object.metadata.managedFields : void 0;
  if (!Array.isArray(entries)) return [];
  return entries.flatMap((entry) => {
    if (!isFields(entry) || !isFields(entry.fieldsV1)) return [];
    const owner = { manager: textOf(entry.manager), operation: textOf(entry.operation), subresource: textOf(entry.subresource), time: textOf(entry.time) };
    return [{ owner, fields: entry.fieldsV1 }];
  });
}
function below(branches, wanted) {
  return branches.flatMap(({ owner, fields }) => {
    if (isWhole(fields)) return [{ owner, fields }];
    const name = Object.keys(fields).find(wanted);
    const inner = name === void 0 ? void 0 : fields[name];
    return isFields(inner) ? [{ owner, fields: inner }] : [];
  });
}
function ofItem(branches, item) {
  return below(branches, (name) => {
    if (name.startsWith("k:") && isFields(item)) {
      const keys = parsed(name.slice(2));
      return isFields(keys) && Object.entries(keys).every(([key, value]) => JSON.stringify(item[key]) === JSON.stringify(value));
    }
    return name.startsWith("v:") && name.slice(2) === JSON.stringify(item);
  });
}
function parsed(text2) {
  try {
    return JSON.parse(text2);
  } catch {
    return null;
  }
}
function ownersOf(branches) {
  const own2 = branches.filter(({ fields }) => isWhole(fields) || "." in fields);
  return own2.map((branch) => branch.owner).sort((a5, b3) => a5.time < b3.time ? 1 : -1);
}
var isWhole = (fields) => Object.keys(fields).length === 0;
function write(value, indent, lead, name, branches, found, path) {
  if (found.length >= MOST_LINES) return;
  const column = lead ? indent + 1 : indent;
  const line = (text2, kind) => found.push({ indent, lead, name, value: text2, kind, path, owners: ownersOf(branches) });
  const isEmpty2 = isFields(value) ? !Object.keys(value).length : Array.isArray(value) && !value.length;
  if (isEmpty2) {
    line(Array.isArray(value) ? "[]" : "{}", "word");
  } else if (isFields(value)) {
    if (name) line("", "none");
    const inner = name ? column + 1 : column;
    let first = name ? "" : lead;
    for (const own2 of order(Object.keys(value), path)) {
      const inside = below(branches, (field) => field === `f:${own2}`);
      write(value[own2], first ? indent : inner, first, own2, inside, found, member(path, own2));
      first = "";
    }
  } else if (Array.isArray(value)) {
    if (name) line("", "none");
    value.forEach((item, at) => write(item, column, "- ", "", ofItem(branches, item), found, `${path}[${labelOf(item, at)}]`));
  } else if (typeof value === "string") {
    text(value, column, line, found, path);
  } else {
    line(String(value), typeof value === "number" ? "number" : "word");
  }
}
var labelOf = (item, at) => isFields(item) && (textOf(item.name) || textOf(item.type)) || String(at);
function text(value, indent, line, found, path) {
  if (!value.includes("\n")) {
    line(scalar(value), "text");
    return;
  }
  line("|", "word");
  const all = value.split("\n");
  if (all[all.length - 1] === "") all.pop();
  for (const part of all.slice(0, TEXT_LINES)) {
    found.push({ indent: indent + 1, lead: "", name: "", value: cut(part), kind: "text", path, owners: [] });
  }
  if (all.length > TEXT_LINES) {
    found.push({ indent: indent + 1, lead: "", name: "", value: `… ${all.length - TEXT_LINES} more lines`, kind: "none", path, owners: [] });
  }
}
var cut = (value) => value.length > WIDTH ? `${value.slice(0, WIDTH)}…` : value;
function scalar(value) {
  const isPlain = /^[A-Za-z0-9_./@][^\u0000-\u001f\u007f]*$/.test(value) && !/: |:$| #|^\s|\s$/.test(value) && !/^(true|false|null|yes|no|on|off|y|n|~)$/i.test(value) && !/^[-+.]?[0-9][-0-9_.eE+:]*$/.test(value);
  return cut(isPlain ? value : JSON.stringify(value));
}
function order(names, path) {
  const place2 = (name) => {
    const at = FIRST.indexOf(name);
    return at < 0 ? FIRST.length : at;
  };
  return path === "" ? [...names].sort((a5, b3) => place2(a5) - place2(b3) || (a5 < b3 ? -1 : 1)) : [...names].sort();
}
var toText = (all) => all.map((line) => "  ".repeat(line.indent) + line.lead + (line.name ? `${line.name}:${line.value ? ` ${line.value}` : ""}` : line.value)).join("\n");

// node_modules/preact/jsx-runtime/dist/jsxRuntime.mjs
var f4 = /* @__PURE__ */ Symbol.for("pv");
var o4 = 0;
function a4(t4, e4, n3, u4, a5, i4) {
  e4 || (e4 = {});
  var c4, l4, p5 = e4;
  if ("ref" in p5 && "function" != typeof t4) for (l4 in p5 = {}, e4) "ref" == l4 ? c4 = e4[l4] : p5[l4] = e4[l4];
  var s4 = { type: t4, props: p5, key: n3, ref: c4, __k: null, __: null, __b: 0, __e: null, __c: null, constructor: f4, __v: --o4, __i: -1, __u: 0 };
  return (a5 || i4) && (s4.__source = a5, s4.__self = i4), n.vnode && n.vnode(s4), s4;
}

// src/views/parts.tsx
function Mark({ state }) {
  const name = state ?? "";
  return /* @__PURE__ */ a4("svg", { class: `mark s-${name || "plain"}`, viewBox: "0 0 12 12", width: "12", height: "12", "aria-hidden": "true", children: shape(name) });
}
function shape(state) {
  switch (state) {
    case "ready":
      return /* @__PURE__ */ a4("circle", { cx: "6", cy: "6", r: "5", class: "fill" });
    case "progress":
      return [/* @__PURE__ */ a4("circle", { cx: "6", cy: "6", r: "4.25", class: "line" }), /* @__PURE__ */ a4("path", { d: "M6 1.75a4.25 4.25 0 0 1 0 8.5z", class: "fill" })];
    case "unready":
      return [/* @__PURE__ */ a4("circle", { cx: "6", cy: "6", r: "5", class: "fill" }), /* @__PURE__ */ a4("rect", { x: "3", y: "5", width: "6", height: "2", class: "hole" })];
    case "pending":
      return /* @__PURE__ */ a4("path", { d: "M6 1.2 10.8 6 6 10.8 1.2 6z", class: "line" });
    case "done":
      return /* @__PURE__ */ a4("path", { d: "M1.8 6.4 4.8 9.4 10.2 2.8", class: "line thick" });
    case "failed":
      return /* @__PURE__ */ a4("path", { d: "M2 2 10 10M10 2 2 10", class: "line thick" });
    case "idle":
      return /* @__PURE__ */ a4("circle", { cx: "6", cy: "6", r: "4.25", class: "line" });
    case "ending":
      return [/* @__PURE__ */ a4("circle", { cx: "6", cy: "6", r: "4.5", class: "line dashed" }), /* @__PURE__ */ a4("path", { d: "M3.6 6h4.8", class: "line" })];
    case "warning":
      return /* @__PURE__ */ a4("path", { d: "M6 1 11.2 10.6H.8z", class: "fill" });
    default:
      return /* @__PURE__ */ a4("circle", { cx: "6", cy: "6", r: "2", class: "fill" });
  }
}
function StateText({ row }) {
  return /* @__PURE__ */ a4("span", { class: "state", children: [
    /* @__PURE__ */ a4(Mark, { state: row.s }),
    /* @__PURE__ */ a4("span", { children: STATES[row.s ?? ""] })
  ] });
}
function MarkSign({ kind }) {
  return /* @__PURE__ */ a4("svg", { class: `sign-of-mark mark-${kind}`, viewBox: "0 0 12 12", width: "12", height: "12", "aria-hidden": "true", children: [
    kind === "fault" && /* @__PURE__ */ a4("path", { d: "M2 2 10 10M10 2 2 10" }),
    kind === "test" && /* @__PURE__ */ a4("path", { d: "M2.5 1v10M3 2l7 2.5L3 7z" }),
    kind === "tag" && /* @__PURE__ */ a4("circle", { cx: "6", cy: "6", r: "4" })
  ] });
}
function ObjectLink({ row, hasKind = false, hasNamespace = false }) {
  return /* @__PURE__ */ a4("a", { class: "name", href: address({ view: "object", subject: rowKey(row) }), title: `${kindName(row.k)} ${row.n ? `${row.n}/` : ""}${row.m}`, children: [
    hasKind && /* @__PURE__ */ a4("span", { class: "kind", children: [
      kindName(row.k),
      " "
    ] }),
    /* @__PURE__ */ a4("bdi", { children: [
      hasNamespace && row.n ? `${row.n}/` : "",
      row.m
    ] })
  ] });
}
function KeyLink({ objectKey, hasNamespace = false }) {
  const [k4, n3, ...rest] = objectKey.split("/");
  return /* @__PURE__ */ a4(ObjectLink, { row: { k: k4, n: n3, m: rest.join("/") }, hasKind: true, hasNamespace });
}
function RevisionLink({ revision: revision2 }) {
  return /* @__PURE__ */ a4("a", { class: "rev", href: address({ at: revision2 }), title: `Go to revision ${revision2}`, children: [
    "#",
    revision2
  ] });
}
function Writer({ write: write2 }) {
  return /* @__PURE__ */ a4("span", { class: write2.outside ? "writer outside" : "writer", children: writerOf(write2) });
}
function Card({ title, note, children, id }) {
  return /* @__PURE__ */ a4("section", { class: "card", "aria-labelledby": `${id}-title`, id, children: [
    /* @__PURE__ */ a4("header", { children: [
      /* @__PURE__ */ a4("h2", { id: `${id}-title`, children: title }),
      note !== void 0 && /* @__PURE__ */ a4("span", { class: "note", children: note })
    ] }),
    children
  ] });
}
function Empty({ children }) {
  return /* @__PURE__ */ a4("p", { class: "empty", children });
}

// src/views/report.tsx
function AboutReport() {
  const about2 = aboutReport();
  if (!about2) return null;
  return /* @__PURE__ */ a4(Card, { id: "report", title: "Report", note: about2.clock === "virtual" ? "virtual time" : void 0, children: [
    /* @__PURE__ */ a4("p", { class: "why", children: [
      /* @__PURE__ */ a4("bdi", { children: about2.title || "a cluster" }),
      about2.time && /* @__PURE__ */ a4("span", { class: "faint", children: [
        ", ",
        about2.time
      ] }),
      /* @__PURE__ */ a4("span", { class: "faint", children: [
        ", read as ",
        /* @__PURE__ */ a4("bdi", { children: about2.user }),
        about2.namespace && /* @__PURE__ */ a4(M, { children: [
          ", namespace ",
          /* @__PURE__ */ a4("bdi", { children: about2.namespace })
        ] }),
        about2.version && `, kstore ${about2.version}`
      ] })
    ] }),
    /* @__PURE__ */ a4("p", { class: "note", children: "This file has the objects that this user may list, with their names, specifications and status. Values of Secrets, keys, certificates and tokens are hidden; values elsewhere, such as variables of containers, are not." }),
    about2.leftOut.length > 0 && /* @__PURE__ */ a4("p", { class: "note problem", role: "note", children: [
      "Left out: ",
      about2.leftOut.map(({ what, count: number }) => `${number.toLocaleString("en")} ${what}`).join("; "),
      "."
    ] }),
    about2.failure && /* @__PURE__ */ a4("pre", { class: "failure", tabIndex: 0, children: about2.failure }),
    about2.output && /* @__PURE__ */ a4("details", { children: [
      /* @__PURE__ */ a4("summary", { children: [
        "Output, ",
        count(about2.output.split("\n").length, "line")
      ] }),
      /* @__PURE__ */ a4("pre", { class: "failure", tabIndex: 0, children: about2.output })
    ] })
  ] });
}

// src/views/overview.tsx
var MOST_WORKLOADS = 200;
var MOST_MARKS = 48;
var MOST_ON_NODE = 24;
var MOST_EVENTS = 12;
var MOST_PENDING = 30;
var MOST_MARKS_LISTED = 200;
function Overview() {
  const tree2 = tree.value;
  const namespace = route.value.namespace;
  const workloads = tree2.workloads(namespace);
  const rows2 = [...tree2.rows.values()].filter((row) => !namespace || row.n === namespace || row.k === "nodes");
  const waiting = rows2.filter((row) => row.s === "pending" || row.s === "failed" || row.s === "unready" && row.k !== "events").sort((a5, b3) => natural(a5.m, b3.m));
  return /* @__PURE__ */ a4("div", { class: "overview", children: [
    /* @__PURE__ */ a4(AboutReport, {}),
    /* @__PURE__ */ a4(Marks, {}),
    /* @__PURE__ */ a4(Workloads, { workloads }),
    /* @__PURE__ */ a4("div", { class: "pair", children: [
      /* @__PURE__ */ a4(Nodes, { pods: tree2.podsByNode(namespace) }),
      /* @__PURE__ */ a4(Waiting, { rows: waiting })
    ] }),
    /* @__PURE__ */ a4(Events, { rows: rows2.filter((row) => row.k === "events") })
  ] });
}
function Marks() {
  const marks2 = marks.value;
  if (!marks2.length) return null;
  return /* @__PURE__ */ a4(Card, { id: "marks", title: "Marks", note: marks2.length > MOST_MARKS_LISTED ? `${MOST_MARKS_LISTED} of ${marks2.length}` : String(marks2.length), children: /* @__PURE__ */ a4("div", { class: "scroll list", tabIndex: 0, role: "region", "aria-label": "Marks in their order", children: /* @__PURE__ */ a4("table", { children: [
    /* @__PURE__ */ a4("thead", { children: /* @__PURE__ */ a4("tr", { children: [
      /* @__PURE__ */ a4("th", { scope: "col", children: "After" }),
      /* @__PURE__ */ a4("th", { scope: "col", children: "Time" }),
      /* @__PURE__ */ a4("th", { scope: "col", children: "Kind" }),
      /* @__PURE__ */ a4("th", { scope: "col", children: "What" })
    ] }) }),
    /* @__PURE__ */ a4("tbody", { children: marks2.slice(0, MOST_MARKS_LISTED).map((mark, at) => {
      const time = markTime(mark, model);
      return /* @__PURE__ */ a4("tr", { class: mark.r > revision.value ? "future" : "", children: [
        /* @__PURE__ */ a4("td", { children: /* @__PURE__ */ a4(RevisionLink, { revision: mark.r }) }),
        /* @__PURE__ */ a4("td", { class: "time", children: time === null ? "" : clock(time) }),
        /* @__PURE__ */ a4("td", { children: /* @__PURE__ */ a4("span", { class: `mark-${mark.kind}`, children: [
          /* @__PURE__ */ a4(MarkSign, { kind: mark.kind }),
          " ",
          MARKS[mark.kind]
        ] }) }),
        /* @__PURE__ */ a4("td", { class: "wide", children: /* @__PURE__ */ a4("bdi", { children: mark.text }) })
      ] }, at);
    }) })
  ] }) }) });
}
function Workloads({ workloads }) {
  const shown = workloads.slice(0, MOST_WORKLOADS);
  return /* @__PURE__ */ a4(Card, { id: "workloads", title: "Workloads", note: workloads.length > shown.length ? `${shown.length} of ${workloads.length}` : workloads.length ? String(workloads.length) : void 0, children: [
    !workloads.length && /* @__PURE__ */ a4(Empty, { children: [
      "Nothing runs at this revision. Create something, and it appears here: ",
      /* @__PURE__ */ a4("code", { children: "kubectl create deployment web --image=nginx --replicas=3" })
    ] }),
    !!workloads.length && /* @__PURE__ */ a4("div", { class: "scroll", children: /* @__PURE__ */ a4("table", { children: [
      /* @__PURE__ */ a4("thead", { children: /* @__PURE__ */ a4("tr", { children: [
        /* @__PURE__ */ a4("th", { children: "Name" }),
        /* @__PURE__ */ a4("th", { children: "State" }),
        /* @__PURE__ */ a4("th", { class: "number", children: "Ready" }),
        /* @__PURE__ */ a4("th", { children: "Pods" }),
        /* @__PURE__ */ a4("th", { class: "image", children: "Image" }),
        /* @__PURE__ */ a4("th", { children: "Last change from outside" })
      ] }) }),
      /* @__PURE__ */ a4("tbody", { children: shown.map((workload) => /* @__PURE__ */ a4(WorkloadRow, { workload }, rowKey(workload.row))) })
    ] }) })
  ] });
}
function WorkloadRow({ workload: { row, pods } }) {
  const last2 = model.lastWrite(rowKey(row), (write2) => write2.outside);
  const images = [...new Set(row.i ?? pods[0]?.i ?? [])];
  const isPod = row.k === "pods";
  return /* @__PURE__ */ a4("tr", { children: [
    /* @__PURE__ */ a4("td", { children: [
      /* @__PURE__ */ a4(ObjectLink, { row, hasKind: true }),
      row.n && !route.value.namespace && /* @__PURE__ */ a4("span", { class: "ns", children: [
        " ",
        row.n
      ] })
    ] }),
    /* @__PURE__ */ a4("td", { children: /* @__PURE__ */ a4("span", { class: "state", children: [
      /* @__PURE__ */ a4(Mark, { state: row.s }),
      " ",
      STATES[row.s ?? ""]
    ] }) }),
    /* @__PURE__ */ a4("td", { class: "number", children: row.r ?? "" }),
    /* @__PURE__ */ a4("td", { children: !isPod && /* @__PURE__ */ a4(Pods, { pods }) }),
    /* @__PURE__ */ a4("td", { class: "image", children: /* @__PURE__ */ a4("bdi", { children: images.join(", ") }) }),
    /* @__PURE__ */ a4("td", { class: "change", children: last2 ? /* @__PURE__ */ a4(M, { children: [
      /* @__PURE__ */ a4(RevisionLink, { revision: last2.r }),
      " ",
      /* @__PURE__ */ a4("span", { class: "time", children: second(last2.t) }),
      " ",
      /* @__PURE__ */ a4(Writer, { write: last2 })
    ] }) : /* @__PURE__ */ a4("span", { class: "faint", children: "before the window" }) })
  ] });
}
function Pods({ pods, most = MOST_MARKS }) {
  if (pods.length <= most) {
    return /* @__PURE__ */ a4("span", { class: "pods", children: pods.map((pod) => /* @__PURE__ */ a4("a", { href: address({ view: "object", subject: rowKey(pod) }), title: `${pod.m}: ${STATES[pod.s ?? ""]}${pod.t ? `, ${pod.t}` : ""}`, "aria-label": `pod ${pod.m}, ${STATES[pod.s ?? ""]}`, children: /* @__PURE__ */ a4(Mark, { state: pod.s }) }, pod.u ?? pod.m)) });
  }
  return /* @__PURE__ */ a4("span", { class: "counts", children: byState(pods).map(([state, number]) => /* @__PURE__ */ a4("span", { class: "state", children: [
    /* @__PURE__ */ a4(Mark, { state }),
    " ",
    number
  ] }, state)) });
}
function byState(pods) {
  const found = /* @__PURE__ */ new Map();
  for (const pod of pods) found.set(pod.s ?? "", (found.get(pod.s ?? "") ?? 0) + 1);
  return [...found.entries()].sort((a5, b3) => b3[1] - a5[1]);
}
function Nodes({ pods }) {
  const names = [...pods.keys()].filter((name) => name !== "");
  return /* @__PURE__ */ a4(Card, { id: "nodes", title: "Pods by node", note: names.length ? count(names.length, "node") : void 0, children: [
    !names.length && /* @__PURE__ */ a4(Empty, { children: "There are no nodes at this revision." }),
    /* @__PURE__ */ a4("ul", { class: "nodes", children: [
      names.slice(0, 200).map((name) => /* @__PURE__ */ a4(Node, { name, pods: pods.get(name) }, name)),
      pods.has("") && /* @__PURE__ */ a4("li", { children: [
        /* @__PURE__ */ a4("span", { class: "name faint", children: "no node" }),
        /* @__PURE__ */ a4("span", { class: "use" }),
        /* @__PURE__ */ a4(Pods, { pods: pods.get(""), most: MOST_ON_NODE })
      ] })
    ] }),
    names.length > 200 && /* @__PURE__ */ a4("p", { class: "note", children: "The first 200 nodes are shown." })
  ] });
}
function Node({ name, pods }) {
  const row = tree.value.rows.get(`nodes//${name}`);
  const [cpu, memory] = [0, 1].map((at) => {
    const all = row?.q?.[at] ?? 0;
    const used = pods.reduce((sum, pod) => sum + (pod.q?.[at] ?? 0), 0);
    return all ? used / all : 0;
  });
  return /* @__PURE__ */ a4("li", { children: [
    row ? /* @__PURE__ */ a4("span", { class: "state", children: [
      /* @__PURE__ */ a4(Mark, { state: row.s }),
      /* @__PURE__ */ a4(ObjectLink, { row })
    ] }) : /* @__PURE__ */ a4("span", { class: "name faint", children: [
      /* @__PURE__ */ a4("bdi", { children: name }),
      " (gone)"
    ] }),
    /* @__PURE__ */ a4("span", { class: "use", children: [
      /* @__PURE__ */ a4(Use, { name: "cpu", part: cpu }),
      /* @__PURE__ */ a4(Use, { name: "mem", part: memory })
    ] }),
    pods.length ? /* @__PURE__ */ a4(Pods, { pods, most: MOST_ON_NODE }) : /* @__PURE__ */ a4("span", { class: "faint", children: "no pods" })
  ] });
}
function Use({ name, part }) {
  const percent = Math.round(part * 100);
  return /* @__PURE__ */ a4("span", { class: percent > 90 ? "bar full" : "bar", title: `${percent} % of ${name} requested`, children: [
    /* @__PURE__ */ a4("span", { class: "label", children: name }),
    /* @__PURE__ */ a4("progress", { max: 100, value: Math.min(100, percent), "aria-label": `${name} requested` }),
    /* @__PURE__ */ a4("span", { class: "percent", children: [
      percent,
      " %"
    ] })
  ] });
}
function Waiting({ rows: rows2 }) {
  return /* @__PURE__ */ a4(Card, { id: "waiting", title: "Needs attention", note: rows2.length ? String(rows2.length) : void 0, children: [
    !rows2.length && /* @__PURE__ */ a4(Empty, { children: "Nothing waits, and nothing failed." }),
    /* @__PURE__ */ a4("ul", { class: "waiting", children: rows2.slice(0, MOST_PENDING).map((row) => /* @__PURE__ */ a4("li", { children: [
      /* @__PURE__ */ a4(Mark, { state: row.s }),
      /* @__PURE__ */ a4("span", { children: [
        /* @__PURE__ */ a4(ObjectLink, { row, hasKind: true, hasNamespace: !route.value.namespace }),
        /* @__PURE__ */ a4("span", { class: "why", children: [
          STATES[row.s ?? ""],
          row.t ? `: ${row.t}` : "",
          " ",
          row.k === "pods" && !row.d && row.s === "pending" && /* @__PURE__ */ a4("a", { class: "underlined", href: address({ view: "scheduling", subject: rowKey(row) }), "aria-label": `What would help pod ${row.m}`, children: "what would help" })
        ] })
      ] })
    ] }, rowKey(row))) }),
    rows2.length > MOST_PENDING && /* @__PURE__ */ a4("p", { class: "note", children: [
      "and ",
      rows2.length - MOST_PENDING,
      " more"
    ] })
  ] });
}
function Events({ rows: rows2 }) {
  const latest = rows2.map((row) => ({ row, write: model.lastWrite(rowKey(row)) })).sort((a5, b3) => Number(b3.row.s === "warning") - Number(a5.row.s === "warning") || (b3.write?.r ?? 0) - (a5.write?.r ?? 0)).slice(0, MOST_EVENTS);
  const warnings = rows2.filter((row) => row.s === "warning").length;
  return /* @__PURE__ */ a4(Card, { id: "events", title: "Events", note: rows2.length ? `${count(warnings, "warning")} · ${rows2.length} in all` : void 0, children: [
    !rows2.length && /* @__PURE__ */ a4(Empty, { children: "No events at this revision." }),
    /* @__PURE__ */ a4("ul", { class: "events", children: latest.map(({ row, write: write2 }) => {
      const about2 = tree.value.get(row.o);
      return /* @__PURE__ */ a4("li", { children: [
        /* @__PURE__ */ a4("span", { class: "time", children: write2 ? second(write2.t) : row.c ? second(Date.parse(row.c)) : "" }),
        /* @__PURE__ */ a4(Mark, { state: row.s }),
        /* @__PURE__ */ a4("span", { children: [
          about2 ? /* @__PURE__ */ a4(ObjectLink, { row: about2, hasKind: true }) : /* @__PURE__ */ a4("span", { class: "faint", children: row.m.split(".")[0] }),
          " ",
          /* @__PURE__ */ a4("span", { class: "why", children: row.t }),
          (row.x ?? 0) > 1 && /* @__PURE__ */ a4("span", { class: "faint", children: [
            " ×",
            row.x
          ] })
        ] })
      ] }, rowKey(row));
    }) })
  ] });
}
function ageOf(row) {
  if (!row.c) return "";
  const isNow = isLive.value && !isReport;
  const then = isNow ? Math.max(Date.now(), model.current()?.t ?? 0) : model.current()?.t ?? Date.now();
  return age((about.value?.clock === "virtual" ? model.current()?.t ?? then : then) - Date.parse(row.c));
}

// src/views/object.tsx
var MOST_ENTRIES = 100;
var MOST_CHANGES = 12;
function ObjectView() {
  const key = route.value.subject;
  const tree2 = tree.value;
  const row = tree2.rows.get(key) ?? null;
  const last2 = lastKnown(key);
  const { kind, namespace, name } = partsOf(key);
  const shown = row ?? last2;
  return /* @__PURE__ */ a4("div", { class: "object", children: [
    /* @__PURE__ */ a4("header", { class: "title", children: [
      /* @__PURE__ */ a4("h2", { children: [
        shown && /* @__PURE__ */ a4(Mark, { state: row ? row.s : void 0 }),
        " ",
        /* @__PURE__ */ a4("span", { class: "kind", children: kindName(kind) }),
        " ",
        /* @__PURE__ */ a4("bdi", { children: name })
      ] }),
      /* @__PURE__ */ a4("span", { class: "facts", children: [
        namespace && /* @__PURE__ */ a4("span", { children: [
          "namespace ",
          /* @__PURE__ */ a4(ObjectLink, { row: { k: "namespaces", m: namespace } })
        ] }),
        row && /* @__PURE__ */ a4(StateText, { row }),
        row?.r && /* @__PURE__ */ a4("span", { children: [
          row.r,
          " ready"
        ] }),
        row?.d && /* @__PURE__ */ a4("span", { children: [
          "on ",
          /* @__PURE__ */ a4(ObjectLink, { row: { k: "nodes", m: row.d } })
        ] }),
        row?.k === "pods" && /* @__PURE__ */ a4("a", { href: address({ view: "scheduling", subject: key, search: "" }), children: row.d ? "why this node" : "why no node" }),
        row?.c && /* @__PURE__ */ a4("span", { title: row.c, children: [
          "age ",
          ageOf(row)
        ] }),
        !row && /* @__PURE__ */ a4("span", { class: "gone", children: last2 ? "does not exist at this revision" : "is not in this window" })
      ] }),
      row?.t && /* @__PURE__ */ a4("p", { class: "why", children: row.t }),
      shown && /* @__PURE__ */ a4(Owners, { row: shown })
    ] }),
    /* @__PURE__ */ a4("div", { class: "columns", children: [
      /* @__PURE__ */ a4(Yaml, { objectKey: key, exists: row !== null }),
      /* @__PURE__ */ a4("div", { class: "side", children: [
        /* @__PURE__ */ a4(History, { objectKey: key }),
        shown && /* @__PURE__ */ a4(ObjectEvents, { row: shown })
      ] })
    ] })
  ] });
}
function lastKnown(key) {
  const indexes = model.byKey.get(key) ?? [];
  for (let at = indexes.length - 1; at >= 0; at--) {
    const touch = model.writes[indexes[at]].touches.find((own2) => own2.key === key);
    if (touch?.after ?? touch?.before) return touch.after ?? touch.before;
  }
  return model.first.get(key) ?? null;
}
function Owners({ row }) {
  const tree2 = tree.value;
  const owners = tree2.owners(row).reverse();
  const children = tree2.children(row);
  const first = children.slice(0, 12);
  if (!owners.length && !children.length) return null;
  return /* @__PURE__ */ a4("p", { class: "owners", children: [
    owners.map((owner) => /* @__PURE__ */ a4(M, { children: [
      /* @__PURE__ */ a4(ObjectLink, { row: owner, hasKind: true }),
      " ",
      /* @__PURE__ */ a4("span", { class: "faint", children: "›" }),
      " "
    ] })),
    /* @__PURE__ */ a4("strong", { children: owners.length ? "this" : "owns" }),
    children.length > 0 && owners.length > 0 && /* @__PURE__ */ a4("span", { class: "faint", children: " › " }),
    " ",
    first.map((child, at) => /* @__PURE__ */ a4(M, { children: [
      at > 0 && ", ",
      /* @__PURE__ */ a4(Mark, { state: child.s }),
      " ",
      /* @__PURE__ */ a4(ObjectLink, { row: child, hasKind: true })
    ] })),
    children.length > first.length && ` and ${children.length - first.length} more`
  ] });
}
function revisionOf(key, at) {
  const indexes = model.byKey.get(key) ?? [];
  for (let i4 = indexes.length - 1; i4 >= 0; i4--) if (indexes[i4] < at) return model.writes[indexes[i4]].r;
  return model.base;
}
function read(key, revision2) {
  const { kind, namespace, name } = partsOf(key);
  const known = kinds.value.get(kind);
  return known ? objectAt(known, namespace, name, revision2) : Promise.reject(new Error(`${kind} is no kind of this server`));
}
var readAt = (key, count2, revision2 = revisionOf(key, count2)) => read(key, revision2);
function Yaml({ objectKey, exists }) {
  const revision2 = revisionOf(objectKey, (void version.value, model.at));
  const [shown, setShown] = d2(null);
  const [problem2, setProblem] = d2("");
  const [wasCopied, setCopied] = d2(false);
  A(() => {
    if (!exists) return;
    let isOver = false;
    const timer = setTimeout(() => {
      read(objectKey, revision2).then((object) => {
        if (isOver) return;
        setShown({ key: objectKey, revision: revision2, all: object === null ? [] : lines2(masked(object)) });
        setProblem("");
      }).catch((error) => {
        if (!isOver) setProblem(error instanceof Refusal && error.code === 410 ? "The server no longer has this state: a longer --history keeps more." : String(error.message));
      });
    }, shown?.key === objectKey ? 120 : 0);
    return () => {
      isOver = true;
      clearTimeout(timer);
    };
  }, [objectKey, revision2, exists]);
  const isOld = shown !== null && (shown.key !== objectKey || shown.revision !== revision2 || !exists);
  const own2 = shown?.key === objectKey ? shown : null;
  const copy = () => {
    if (own2) void navigator.clipboard.writeText(toText(own2.all)).then(() => (setCopied(true), setTimeout(() => setCopied(false), 1500)));
  };
  return /* @__PURE__ */ a4(
    Card,
    {
      id: "yaml",
      title: "YAML",
      note: /* @__PURE__ */ a4(M, { children: [
        own2 && !isOld && /* @__PURE__ */ a4(M, { children: [
          "written at ",
          /* @__PURE__ */ a4(RevisionLink, { revision: own2.revision }),
          " "
        ] }),
        /* @__PURE__ */ a4("button", { type: "button", class: "small", onClick: copy, disabled: !own2, children: wasCopied ? "copied" : "copy" })
      ] }),
      children: [
        problem2 && /* @__PURE__ */ a4("p", { class: "problem", children: problem2 }),
        !exists && !own2 && /* @__PURE__ */ a4(Empty, { children: "There is nothing to show: the object does not exist at this revision. Its history is beside." }),
        own2 && /* @__PURE__ */ a4("div", { class: isOld ? "yaml old" : "yaml", tabIndex: 0, role: "region", "aria-label": "YAML with who set each field", children: /* @__PURE__ */ a4(YamlLines, { all: own2.all }) })
      ]
    }
  );
}
function YamlLines({ all }) {
  let before = "";
  return /* @__PURE__ */ a4("table", { class: "code", children: [
    /* @__PURE__ */ a4("thead", { class: "hidden", children: /* @__PURE__ */ a4("tr", { children: [
      /* @__PURE__ */ a4("th", { children: "Line" }),
      /* @__PURE__ */ a4("th", { children: "Set by" })
    ] }) }),
    /* @__PURE__ */ a4("tbody", { children: all.map((line, at) => {
      const owner = line.owners[0];
      const name = owner ? nameOf(owner) : "";
      const isNew = name !== before;
      before = name;
      return /* @__PURE__ */ a4("tr", { children: [
        /* @__PURE__ */ a4("td", { children: [
          /* @__PURE__ */ a4("span", { class: "indent", children: "  ".repeat(line.indent) }),
          line.lead && /* @__PURE__ */ a4("span", { class: "faint", children: line.lead }),
          line.name && /* @__PURE__ */ a4(M, { children: [
            /* @__PURE__ */ a4("span", { class: "member", children: line.name }),
            /* @__PURE__ */ a4("span", { class: "faint", children: ":" }),
            " "
          ] }),
          /* @__PURE__ */ a4("bdi", { class: `v-${line.kind}`, children: line.value })
        ] }),
        /* @__PURE__ */ a4("td", { class: "owner", title: line.owners.map((own2) => `${nameOf(own2)}, ${own2.operation} at ${own2.time}`).join("\n"), children: isNew && owner ? /* @__PURE__ */ a4(M, { children: [
          name,
          " ",
          /* @__PURE__ */ a4("span", { class: "time", children: second(Date.parse(owner.time)) })
        ] }) : owner ? /* @__PURE__ */ a4("span", { class: "same", "aria-hidden": "true", children: "│" }) : null })
      ] }, at);
    }) })
  ] });
}
var nameOf = (owner) => owner.manager + (owner.subresource ? ` (${owner.subresource})` : "");
function History({ objectKey }) {
  void version.value;
  const indexes = model.byKey.get(objectKey) ?? [];
  const shown = indexes.slice(-MOST_ENTRIES).reverse();
  const isBefore = model.first.has(objectKey);
  return /* @__PURE__ */ a4(Card, { id: "history", title: "History", note: count(indexes.length, "write"), children: [
    !indexes.length && /* @__PURE__ */ a4(Empty, { children: isBefore ? `Nothing was written to it since #${model.base}, where this window begins.` : "No write to it is known." }),
    /* @__PURE__ */ a4("ol", { class: "history", children: folded(shown).map((group) => /* @__PURE__ */ a4(Group, { group, objectKey }, model.writes[group[group.length - 1]].r)) }),
    isBefore && indexes.length > 0 && /* @__PURE__ */ a4("p", { class: "note", children: [
      "It existed before #",
      model.base,
      ", where this window begins."
    ] })
  ] });
}
function folded(indexes) {
  const groups = [];
  for (const index of indexes) {
    const last2 = groups[groups.length - 1];
    const [one, other] = [model.writes[index], last2 && model.writes[last2[0]]];
    if (other && one.verb.endsWith("/status") && one.verb === other.verb && one.agent === other.agent) last2.push(index);
    else groups.push([index]);
  }
  return groups;
}
function Group({ group, objectKey }) {
  const [isOpen, setOpen] = d2(false);
  const current = group.findIndex((index) => model.writes[index].r === revisionOf(objectKey, model.at));
  const shown = isOpen ? group : group.slice(0, 1);
  return /* @__PURE__ */ a4(M, { children: [
    shown.map((index) => /* @__PURE__ */ a4(Entry, { write: model.writes[index], objectKey, index }, index)),
    group.length > 1 && /* @__PURE__ */ a4("li", { class: current > 0 && !isOpen ? "more current" : "more", children: /* @__PURE__ */ a4("button", { type: "button", class: "small", onClick: () => setOpen(!isOpen), "aria-expanded": isOpen, children: isOpen ? "fewer" : `${count(group.length - 1, "earlier status write")}, from #${model.writes[group[group.length - 1]].r}` }) })
  ] });
}
function Entry({ write: write2, objectKey, index }) {
  const all = model.byKey.get(objectKey) ?? [];
  const before = all[all.indexOf(index) - 1];
  const touch = write2.touches.find((own2) => own2.key === objectKey);
  const consequences = model.consequences(write2.r);
  const isFuture = index >= model.at;
  const isCurrent = revisionOf(objectKey, model.at) === write2.r;
  return /* @__PURE__ */ a4("li", { class: `${isFuture ? "future" : ""} ${isCurrent ? "current" : ""}`, "aria-current": isCurrent ? "true" : void 0, children: [
    /* @__PURE__ */ a4("p", { class: "line", children: [
      /* @__PURE__ */ a4(RevisionLink, { revision: write2.r }),
      " ",
      /* @__PURE__ */ a4("span", { class: "time", children: clock(write2.t) }),
      " ",
      /* @__PURE__ */ a4(Writer, { write: write2 }),
      " ",
      /* @__PURE__ */ a4("span", { class: "verb", children: touch.effect === "updated" ? write2.verb : touch.effect })
    ] }),
    (write2.causes.length > 0 || consequences > 0) && /* @__PURE__ */ a4("p", { class: "causes", children: [
      write2.causes.length > 0 && /* @__PURE__ */ a4(Causes, { causes: write2.causes }),
      consequences > 0 && /* @__PURE__ */ a4("a", { href: address({ view: "timeline", write: write2.r }), children: [
        "led to ",
        count(consequences, "write")
      ] })
    ] }),
    /* @__PURE__ */ a4(Changes, { write: write2, objectKey, before, opens: true })
  ] });
}
function Causes({ causes, lead = "because of " }) {
  return /* @__PURE__ */ a4("span", { children: [
    lead,
    causes.slice(-3).map((cause, at) => {
      const key = model.find(cause)?.touches[0]?.key;
      return /* @__PURE__ */ a4(M, { children: [
        at > 0 && ", ",
        /* @__PURE__ */ a4(RevisionLink, { revision: cause }),
        key && /* @__PURE__ */ a4(M, { children: [
          " ",
          /* @__PURE__ */ a4(KeyLink, { objectKey: key })
        ] })
      ] });
    }),
    causes.length > 3 && ` and ${causes.length - 3} more`,
    " "
  ] });
}
function Changes({ write: write2, objectKey, before, opens }) {
  const touch = write2.touches.find((own2) => own2.key === objectKey);
  const [found, setFound] = d2(null);
  const [isOpen, setOpen] = d2(opens);
  const place2 = T2(null);
  A(() => {
    setFound(null);
  }, [write2.r, objectKey]);
  A(() => {
    if (!isOpen || found !== null || touch?.effect !== "updated") return;
    let isOver = false;
    const load2 = () => {
      const old = before === void 0 ? model.base : model.writes[before].r;
      Promise.all([read(objectKey, old), read(objectKey, write2.r)]).then(([one, two2]) => !isOver && setFound(shownChanges(one, two2))).catch((error) => !isOver && setFound(error.message));
    };
    const observer = new IntersectionObserver((entries) => {
      if (entries.some((entry) => entry.isIntersecting)) {
        observer.disconnect();
        load2();
      }
    });
    if (place2.current) observer.observe(place2.current);
    return () => {
      isOver = true;
      observer.disconnect();
    };
  }, [isOpen, found, write2.r, objectKey]);
  if (!touch) return null;
  if (touch.effect === "created") return touch.after?.i ? /* @__PURE__ */ a4("p", { class: "changes plain", children: [
    "with ",
    touch.after.i.join(", ")
  ] }) : null;
  if (touch.effect === "deleted") return null;
  if (!isOpen) {
    return /* @__PURE__ */ a4("button", { type: "button", class: "small", onClick: () => setOpen(true), children: "what changed" });
  }
  return /* @__PURE__ */ a4("div", { class: "changes", ref: place2, children: [
    found === null && /* @__PURE__ */ a4("span", { class: "faint", children: "reading what changed…" }),
    typeof found === "string" && /* @__PURE__ */ a4("span", { class: "faint", children: found }),
    Array.isArray(found) && /* @__PURE__ */ a4(ChangeList, { found })
  ] });
}
function ChangeList({ found }) {
  const [showsAll, setAll] = d2(false);
  if (!found.length) return /* @__PURE__ */ a4("span", { class: "faint", children: "managed fields only" });
  const shown = showsAll ? found : found.slice(0, MOST_CHANGES);
  return /* @__PURE__ */ a4(M, { children: [
    /* @__PURE__ */ a4("dl", { children: shown.map((change) => /* @__PURE__ */ a4("div", { children: [
      /* @__PURE__ */ a4("dt", { children: /* @__PURE__ */ a4("bdi", { children: change.path }) }),
      /* @__PURE__ */ a4("dd", { children: [
        /* @__PURE__ */ a4("del", { children: /* @__PURE__ */ a4("bdi", { children: shortValue(change.from) }) }),
        /* @__PURE__ */ a4("span", { class: "faint", children: " → " }),
        /* @__PURE__ */ a4("ins", { children: /* @__PURE__ */ a4("bdi", { children: shortValue(change.to) }) })
      ] })
    ] }, change.path)) }),
    found.length > shown.length && /* @__PURE__ */ a4("button", { type: "button", class: "small", onClick: () => setAll(true), children: [
      found.length - shown.length,
      " more"
    ] })
  ] });
}
function ObjectEvents({ row }) {
  const events = [...tree.value.rows.values()].filter((own2) => own2.k === "events" && row.u !== void 0 && own2.o === row.u);
  const sorted = events.map((own2) => ({ own: own2, write: model.lastWrite(rowKey(own2)) })).sort((a5, b3) => (b3.write?.r ?? 0) - (a5.write?.r ?? 0));
  return /* @__PURE__ */ a4(Card, { id: "object-events", title: "Events", note: events.length ? String(events.length) : void 0, children: [
    !events.length && /* @__PURE__ */ a4(Empty, { children: "No events about it at this revision." }),
    /* @__PURE__ */ a4("ul", { class: "events", children: sorted.slice(0, 50).map(({ own: own2, write: write2 }) => /* @__PURE__ */ a4("li", { children: [
      /* @__PURE__ */ a4("span", { class: "time", children: write2 ? second(write2.t) : ageOf(own2) }),
      /* @__PURE__ */ a4(Mark, { state: own2.s }),
      /* @__PURE__ */ a4("span", { class: "why", children: [
        own2.t,
        (own2.x ?? 0) > 1 && /* @__PURE__ */ a4("span", { class: "faint", children: [
          " ×",
          own2.x
        ] })
      ] })
    ] }, rowKey(own2))) })
  ] });
}

// src/views/compare.tsx
var MOST3 = 300;
function Compare() {
  void version.value;
  const { model: model2 } = store_exports;
  const { mark, namespace } = route.value;
  const [showsAll, setAll] = d2(false);
  const from = mark === null ? Math.max(0, model2.nextOutside(-1) - 1) : model2.countUpTo(mark);
  const to = model2.at;
  const all = differing(model2, from, to).filter((one) => !namespace || one.key.split("/")[1] === namespace);
  const shown = all.filter((one) => showsAll || !isQuiet(one.key.split("/")[0]));
  const [old, now2] = from <= to ? [from, to] : [to, from];
  const kinds2 = [...new Set(shown.map((one) => one.key.split("/")[0]))].sort((a5, b3) => natural(kindName(a5), kindName(b3)));
  const by = (difference) => shown.filter((one) => one.difference === difference).length;
  return /* @__PURE__ */ a4("div", { class: "compare", children: [
    /* @__PURE__ */ a4(
      Card,
      {
        id: "compare",
        title: "Compare",
        note: /* @__PURE__ */ a4("span", { class: "choices", children: /* @__PURE__ */ a4("label", { children: [
          /* @__PURE__ */ a4("input", { type: "checkbox", checked: showsAll, onChange: (event) => setAll(event.currentTarget.checked) }),
          " all kinds"
        ] }) }),
        children: [
          /* @__PURE__ */ a4("p", { class: "between", children: [
            /* @__PURE__ */ a4(State, { number: old }),
            " ",
            /* @__PURE__ */ a4("span", { class: "faint", children: "→" }),
            " ",
            /* @__PURE__ */ a4(State, { number: now2 }),
            /* @__PURE__ */ a4("span", { class: "faint", children: [
              count(now2 - old, "revision"),
              ": ",
              by("added"),
              " added, ",
              by("removed"),
              " removed, ",
              by("changed"),
              " changed"
            ] }),
            /* @__PURE__ */ a4("span", { class: "space" }),
            /* @__PURE__ */ a4("button", { type: "button", class: "small", onClick: () => go({ mark: model2.revision() }), title: "Compare with the revision of the slider ( [ )", children: "set the mark here" }),
            mark !== null && /* @__PURE__ */ a4("button", { type: "button", class: "small", onClick: () => go({ mark: null }), children: "mark before the last change from outside" })
          ] }),
          !shown.length && /* @__PURE__ */ a4(Empty, { children: now2 === old ? "The mark and the slider are at the same revision. Move the slider." : all.length ? `Only kinds differ that are not shown: ${count(all.length, "object")}.` : "Nothing differs between these revisions." })
        ]
      }
    ),
    kinds2.map((kind) => /* @__PURE__ */ a4(Kind, { kind, all: shown.filter((one) => one.key.startsWith(`${kind}/`)).slice(0, MOST3) }, kind))
  ] });
}
function State({ number }) {
  const write2 = model.writes[number - 1];
  return /* @__PURE__ */ a4("span", { children: [
    /* @__PURE__ */ a4(RevisionLink, { revision: write2 ? write2.r : model.base }),
    " ",
    /* @__PURE__ */ a4("span", { class: "time", children: write2 ? clock(write2.t) : "the beginning of the window" })
  ] });
}
function Kind({ kind, all }) {
  return /* @__PURE__ */ a4(Card, { id: `kind-${kind.replace(/[^a-z]/g, "-")}`, title: kindName(kind), note: String(all.length), children: /* @__PURE__ */ a4("ul", { class: "differing", children: all.map((one) => /* @__PURE__ */ a4(Entry2, { one }, one.key)) }) });
}
var SIGNS = { added: "+", removed: "−", changed: "~" };
function Entry2({ one }) {
  const [isOpen, setOpen] = d2(false);
  const last2 = model.writes[one.writes[one.writes.length - 1]];
  const row = one.after ?? one.before;
  return /* @__PURE__ */ a4("li", { class: one.difference, children: [
    /* @__PURE__ */ a4("p", { class: "line", children: [
      /* @__PURE__ */ a4("span", { class: "sign", title: one.difference, "aria-label": one.difference, children: SIGNS[one.difference] }),
      /* @__PURE__ */ a4(Mark, { state: row.s }),
      " ",
      /* @__PURE__ */ a4(KeyLink, { objectKey: one.key, hasNamespace: true }),
      one.before && one.after && one.before.s !== one.after.s && /* @__PURE__ */ a4("span", { class: "faint", children: [
        STATES[one.before.s ?? ""],
        " → ",
        STATES[one.after.s ?? ""]
      ] }),
      /* @__PURE__ */ a4("span", { class: "faint", children: [
        count(one.writes.length, "write"),
        ", last ",
        /* @__PURE__ */ a4(RevisionLink, { revision: last2.r }),
        " by ",
        /* @__PURE__ */ a4(Writer, { write: last2 })
      ] }),
      one.difference === "changed" && /* @__PURE__ */ a4("button", { type: "button", class: "small", onClick: () => setOpen(!isOpen), "aria-expanded": isOpen, children: isOpen ? "hide" : "what changed" })
    ] }),
    isOpen && /* @__PURE__ */ a4(Details, { one })
  ] });
}
function Details({ one }) {
  const [found, setFound] = d2(null);
  const first = one.writes[0];
  const last2 = model.writes[one.writes[one.writes.length - 1]].r;
  A(() => {
    let isOver = false;
    Promise.all([readAt(one.key, first), readAt(one.key, first + 1, last2)]).then(([old, now2]) => !isOver && setFound(shownChanges(old, now2))).catch((error) => !isOver && setFound(error.message));
    return () => {
      isOver = true;
    };
  }, [one.key, first, last2]);
  if (found === null) return /* @__PURE__ */ a4("p", { class: "changes faint", children: "reading…" });
  if (typeof found === "string") return /* @__PURE__ */ a4("p", { class: "changes faint", children: found });
  if (!found.length) return /* @__PURE__ */ a4("p", { class: "changes faint", children: "managed fields only" });
  return /* @__PURE__ */ a4("dl", { class: "changes", children: found.slice(0, 100).map((change) => /* @__PURE__ */ a4("div", { children: [
    /* @__PURE__ */ a4("dt", { children: /* @__PURE__ */ a4("bdi", { children: change.path }) }),
    /* @__PURE__ */ a4("dd", { children: [
      /* @__PURE__ */ a4("del", { children: /* @__PURE__ */ a4("bdi", { children: shortValue(change.from) }) }),
      /* @__PURE__ */ a4("span", { class: "faint", children: " → " }),
      /* @__PURE__ */ a4("ins", { children: /* @__PURE__ */ a4("bdi", { children: shortValue(change.to) }) })
    ] })
  ] }, change.path)) });
}

// src/search.ts
var MEMBERS = ["kind", "ns", "name", "node", "image", "state", "phase", "by", "rev", "deleted"];
var PHASES = { pending: ["pending", "progress"], running: ["ready", "unready"], succeeded: ["done"], failed: ["failed"] };
function parseQuery(text2) {
  const query = { words: [], members: [], labels: [], notes: [] };
  for (const part of text2.toLowerCase().split(/\s+/).filter(Boolean)) {
    const colon = part.indexOf(":");
    const equals = part.indexOf("=");
    if (colon > 0 && MEMBERS.includes(part.slice(0, colon))) {
      const [member2, value] = [part.slice(0, colon), part.slice(colon + 1)];
      query.members.push([member2, value]);
      const expected = expectedBy(member2, value);
      if (expected) query.notes.push(`${part}: ${member2} is ${expected}`);
    } else if (equals > 0) query.labels.push([part.slice(0, equals), part.slice(equals + 1)]);
    else {
      query.words.push(part);
      if (colon > 0) query.notes.push(`${part} is searched as a word: members are ${MEMBERS.join(", ")}`);
    }
  }
  return query;
}
function expectedBy(member2, value) {
  if (member2 === "rev") return revisionOf2(value) ? null : "a revision, such as 263";
  if (member2 === "deleted") return value === "yes" || value === "no" ? null : "yes or no";
  if (member2 === "phase") return value in PHASES ? null : `one of ${Object.keys(PHASES).join(", ")}`;
  return value ? null : "not empty";
}
var revisionOf2 = (text2) => /^#?\d{1,15}$/.test(text2) ? Number(text2.replace("#", "")) : 0;
var wantsDeleted = (query) => query.members.some(([member2, value]) => member2 === "deleted" && value === "yes");
function factsOf(model2, row) {
  const key = rowKey(row);
  const writes = () => (model2.byKey.get(key) ?? []).map((index) => model2.writes[index]);
  return {
    writers: () => writes().flatMap((write2) => [write2.user.toLowerCase(), programOf(write2.agent).toLowerCase()]),
    hasRevision: (revision2) => writes().some((write2) => write2.r === revision2),
    isDeleted: () => !model2.rows.has(key)
  };
}
function deletedRows(model2) {
  const found = [];
  for (const [key, indexes] of model2.byKey) {
    if (model2.rows.has(key)) continue;
    const last2 = indexes.filter((index) => index < model2.at).pop();
    if (last2 === void 0) continue;
    const row = model2.writes[last2].touches.filter((touch) => touch.key === key).pop()?.before;
    if (row) found.push(row);
  }
  return found;
}
var isEmpty = (query) => !query.words.length && !query.members.length && !query.labels.length;
function matches(row, query, facts) {
  const has = (text2, part) => (text2 ?? "").toLowerCase().includes(part);
  for (const [member2, value] of query.members) {
    const found = member2 === "kind" ? row.k === value || row.k.split(".")[0] === value || `${row.k.split(".")[0]}` === `${value}s` : member2 === "ns" ? (row.n ?? "") === value : member2 === "name" ? has(row.m, value) : member2 === "node" ? has(row.d, value) || row.k === "nodes" && has(row.m, value) : member2 === "image" ? (row.i ?? []).some((image) => has(image, value)) : member2 === "phase" ? row.k === "pods" && (PHASES[value] ?? []).includes(row.s ?? "") : member2 === "by" ? value !== "" && facts.writers().some((writer) => has(writer, value)) : member2 === "rev" ? revisionOf2(value) > 0 && facts.hasRevision(revisionOf2(value)) : member2 === "deleted" ? value === "yes" ? facts.isDeleted() : value === "no" && !facts.isDeleted() : (row.s ?? "") === value;
    if (!found) return false;
  }
  for (const [label2, value] of query.labels) {
    const found = Object.entries(row.l ?? {}).some(([key, own2]) => (key.toLowerCase() === label2 || key.toLowerCase().endsWith(`/${label2}`)) && own2.toLowerCase() === value);
    if (!found) return false;
  }
  return query.words.every((word) => has(row.m, word) || has(row.k, word) || has(row.n, word) || (row.i ?? []).some((image) => has(image, word)) || Object.entries(row.l ?? {}).some(([key, value]) => has(key, word) || has(value, word)));
}

// src/views/list.tsx
var FIRST2 = 150;
var MOST4 = 2e3;
function List() {
  const { subject, search, namespace } = route.value;
  const rows2 = tree.value.rows;
  const query = parseQuery(search);
  const found = [];
  for (const row of wantsDeleted(query) ? deletedRows(model) : rows2.values()) {
    if (subject && row.k !== subject) continue;
    if (!subject && row.k === "events" && !query.members.some(([member2]) => member2 === "kind")) continue;
    if (namespace && row.n !== namespace) continue;
    if (isEmpty(query) || matches(row, query, factsOf(model, row))) found.push(row);
  }
  found.sort(byName);
  const [most, setMost] = d2(FIRST2);
  const shown = found.slice(0, most);
  const title = subject ? `${kindName(subject)} · ${subject}` : search ? `Objects with “${search}”` : "All objects";
  const isNamespaced = shown.some((row) => row.n) && !namespace;
  const hasNode = shown.some((row) => row.d);
  const hasDetails = shown.some((row) => row.t || row.i || row.x);
  const hasReady = shown.some((row) => row.r);
  return /* @__PURE__ */ a4(Card, { id: "list", title, note: found.length > shown.length ? `the first ${shown.length} of ${found.length.toLocaleString("en")}` : String(found.length), children: [
    query.notes.map((note) => /* @__PURE__ */ a4("p", { class: "note", children: /* @__PURE__ */ a4("bdi", { children: note }) }, note)),
    !found.length && /* @__PURE__ */ a4(Empty, { children: search ? "Nothing matches at this revision. Words match names, kinds, labels and images; kind:pod, ns:, node:, image:, state:, phase:, by:, rev:, deleted:yes and app=web narrow it." : "There are none at this revision." }),
    !!found.length && /* @__PURE__ */ a4("div", { class: "scroll", children: /* @__PURE__ */ a4("table", { children: [
      /* @__PURE__ */ a4("thead", { children: /* @__PURE__ */ a4("tr", { children: [
        /* @__PURE__ */ a4("th", { children: "Name" }),
        isNamespaced && /* @__PURE__ */ a4("th", { children: "Namespace" }),
        /* @__PURE__ */ a4("th", { children: "State" }),
        hasReady && /* @__PURE__ */ a4("th", { class: "number", children: "Ready" }),
        hasNode && /* @__PURE__ */ a4("th", { children: "Node" }),
        /* @__PURE__ */ a4("th", { class: "number", children: "Age" }),
        hasDetails && /* @__PURE__ */ a4("th", { children: "Details" })
      ] }) }),
      /* @__PURE__ */ a4("tbody", { children: shown.map((row) => /* @__PURE__ */ a4("tr", { children: [
        /* @__PURE__ */ a4("td", { children: /* @__PURE__ */ a4(ObjectLink, { row, hasKind: !subject }) }),
        isNamespaced && /* @__PURE__ */ a4("td", { class: "ns", children: row.n }),
        /* @__PURE__ */ a4("td", { children: /* @__PURE__ */ a4(StateText, { row }) }),
        hasReady && /* @__PURE__ */ a4("td", { class: "number", children: row.r }),
        hasNode && /* @__PURE__ */ a4("td", { children: row.d && /* @__PURE__ */ a4(ObjectLink, { row: { k: "nodes", m: row.d } }) }),
        /* @__PURE__ */ a4("td", { class: "number", children: ageOf(row) }),
        hasDetails && /* @__PURE__ */ a4("td", { class: "why wide", children: /* @__PURE__ */ a4("bdi", { children: [row.t, (row.i ?? []).join(", "), row.x && row.k === "pods" ? `${row.x} restarts` : ""].filter(Boolean).join(" · ") }) })
      ] }, rowKey(row))) })
    ] }) }),
    found.length > shown.length && most < MOST4 && /* @__PURE__ */ a4("p", { class: "note", children: /* @__PURE__ */ a4("button", { type: "button", class: "small", onClick: () => setMost(MOST4), children: [
      "show ",
      found.length > MOST4 ? `the first ${MOST4.toLocaleString("en")}` : "all"
    ] }) })
  ] });
}

// src/scheduling.ts
function waitingPods(rows2, namespace) {
  const found = [];
  for (const row of rows2) {
    if (row.k === "pods" && !row.d && row.s !== "done" && row.s !== "failed" && (!namespace || row.n === namespace)) found.push(row);
  }
  return found.sort((a5, b3) => (a5.c ?? "").localeCompare(b3.c ?? "") || (rowKey(a5) < rowKey(b3) ? -1 : 1));
}
function placedPods(model2, namespace, most) {
  const found = /* @__PURE__ */ new Map();
  for (let index = model2.at - 1; index >= 0 && found.size < most; index--) {
    for (const { key, before, after } of model2.writes[index].touches) {
      const row = model2.rows.get(key);
      const isBind = after?.k === "pods" && after.d && !before?.d;
      if (isBind && row && row.u === after.u && row.d && (!namespace || row.n === namespace) && !found.has(key) && found.size < most) {
        found.set(key, { row, revision: model2.writes[index].r });
      }
    }
  }
  return [...found.values()];
}
function placementInReport(row, model2, known) {
  const own2 = known.find(({ uid }) => uid === row.u);
  const isEnded = row.s === "done" || row.s === "failed";
  const state = isEnded ? "ended" : row.d ? "placed" : own2?.state === "gated" ? "gated" : "pending";
  const bind = model2.lastWrite(rowKey(row), (write2) => write2.touches.some(({ key, before, after }) => key === rowKey(row) && after?.u === row.u && after?.d && !before?.d));
  return {
    pod: `${row.n}/${row.m}`,
    uid: row.u,
    scheduler: own2?.scheduler ?? "",
    state,
    node: row.d ?? null,
    records: own2?.records ?? [],
    notes: state === "pending" && own2 && !own2.computed ? ["The report has the verdicts on nodes only for some of the pods that waited at its end."] : own2?.notes ?? [],
    schedulingGates: own2?.schedulingGates,
    bound: bind ? { revision: bind.r, by: writerOf(bind) } : void 0,
    computed: state === "pending" ? own2?.computed : void 0
  };
}
var SHORT = {
  TaintToleration: "Taints",
  NodeAffinity: "Affinity",
  PodTopologySpread: "Spread",
  InterPodAffinity: "Pods",
  NodeResourcesFit: "Fit",
  NodeResourcesBalancedAllocation: "Balance",
  ImageLocality: "Image",
  NodeUnschedulable: "Cordon",
  NodePorts: "Ports",
  NodeName: "Name",
  NodeVolumeLimits: "Limits",
  VolumeRestrictions: "Volumes",
  VolumeBinding: "Binding",
  VolumeZone: "Zone",
  DynamicResources: "Devices"
};
var shortPlugin = (plugin) => SHORT[plugin] ?? plugin;
var UNITS = [["Gi", 2 ** 30], ["Mi", 2 ** 20], ["Ki", 2 ** 10]];
var decimal = (value, digits) => String(Number(value.toFixed(digits)));
function amount(resource, value) {
  if (resource === "cpu") return decimal(value / 1e3, 3);
  if (resource !== "memory" && resource !== "ephemeral-storage") return String(value);
  const unit = UNITS.find(([, size]) => value >= size);
  return unit ? `${decimal(value / unit[1], 2)}${unit[0]}` : String(value);
}
function lackText(lack) {
  if ("taint" in lack) {
    const { key, value, effect } = lack.taint;
    return `toleration of ${key}${value ? `=${value}` : ""}:${effect}`;
  }
  return `${lack.resource} ${amount(lack.resource, lack.requested - lack.free)} of ${amount(lack.resource, lack.requested)}`;
}
var lacksOf = (verdict) => verdict.refusals.flatMap(({ lacks, reasons }) => lacks.length ? lacks.map(lackText) : reasons).join("; ");
function behindFirst(verdicts, verdict) {
  const first = verdicts.nodes[0];
  const points = verdicts.scores.map(({ plugin, weight }) => [plugin, weight * ((verdict.scores[plugin] ?? 0) - (first.scores[plugin] ?? 0))]);
  return points.filter(([, by]) => by !== 0).map(([plugin, by]) => `${by > 0 ? "+" : "−"}${Math.abs(by)} ${shortPlugin(plugin)}`).join(", ");
}
var attemptNumbers = ({ attempt, repeats }) => repeats ? `${attempt} to ${attempt + repeats}` : String(attempt);
function attemptText({ placed, refused, failed }) {
  if (placed) {
    const scores = Object.entries(placed.scores ?? {}).map(([plugin, score]) => `${shortPlugin(plugin)} ${score}`);
    const total2 = scores.length ? `; total ${placed.total}: ${scores.join(", ")}` : "";
    return `chose ${placed.node}: ${placed.evaluated} evaluated, ${placed.feasible} feasible, ${placed.best} best${total2}`;
  }
  if (failed) return `failed: ${failed.message}`;
  const evictions = refused?.evictions;
  const victims = evictions ? ` Evicts ${evictions.pods?.join(", ") ?? `${evictions.count} pods`}${evictions.node ? ` from ${evictions.node}` : ""}.` : "";
  return `${refused?.message ?? "found no node"}${victims}`;
}
var shellWord = (text2) => /^[A-Za-z0-9_.:/=@%+-]+$/.test(text2) ? text2 : `'${text2.replaceAll("'", "'\\''")}'`;
function commands({ pod, state, node, computed }, at) {
  const [namespace, name] = pod.split("/");
  const when = at === null ? "" : ` --at ${at}`;
  const found = [];
  const nearest2 = computed?.nodes[0]?.node;
  if (state === "pending" && nearest2) found.push(`kstore-server what-if --with-nodes ${shellWord(`1xnode/${nearest2}`)}${when}`);
  if (state === "placed" && node) found.push(`kstore-server what-if --without ${shellWord(`node/${node}`)}${when}`);
  found.push(`kstore-server explain ${shellWord(`pod/${name}`)} -n ${shellWord(namespace)} --placement --all-nodes${when}`);
  return found;
}

// src/views/scheduling.tsx
var MOST_WAITING = 100;
var MOST_PLACED = 40;
var FIRST_NODES = 25;
var SETTLE = 120;
function Scheduling() {
  void version.value;
  const { subject, namespace } = route.value;
  const waiting = waitingPods(model.rows.values(), namespace);
  const placed = placedPods(model, namespace, MOST_PLACED);
  const first = waiting[0] ?? placed[0]?.row;
  const key = subject || (first ? rowKey(first) : "");
  return /* @__PURE__ */ a4("div", { class: "scheduling", children: [
    /* @__PURE__ */ a4("div", { class: "side", children: [
      /* @__PURE__ */ a4(Card, { id: "waiting-pods", title: "Pending", note: String(waiting.length), children: [
        !waiting.length && /* @__PURE__ */ a4(Empty, { children: "No pod waits for a node at this revision." }),
        /* @__PURE__ */ a4("ul", { class: "choose", children: waiting.slice(0, MOST_WAITING).map((row) => /* @__PURE__ */ a4(Choice, { row, isChosen: rowKey(row) === key }, rowKey(row))) }),
        waiting.length > MOST_WAITING && /* @__PURE__ */ a4("p", { class: "note", children: [
          "and ",
          waiting.length - MOST_WAITING,
          " more; the namespace at the top narrows it"
        ] })
      ] }),
      /* @__PURE__ */ a4(Card, { id: "placed-pods", title: "Placed", note: "the last ones of this window", children: [
        !placed.length && /* @__PURE__ */ a4(Empty, { children: "No pod of this revision got its node in the window." }),
        /* @__PURE__ */ a4("ul", { class: "choose", children: placed.map(({ row, revision: revision2 }) => /* @__PURE__ */ a4(Choice, { row, isChosen: rowKey(row) === key, revision: revision2 }, rowKey(row))) })
      ] })
    ] }),
    /* @__PURE__ */ a4("div", { class: "side", children: key ? /* @__PURE__ */ a4(Place, { objectKey: key }, key) : /* @__PURE__ */ a4(Empty, { children: "Pods appear here as soon as there are any." }) })
  ] });
}
function Choice({ row, isChosen, revision: revision2 }) {
  return /* @__PURE__ */ a4("li", { children: /* @__PURE__ */ a4("a", { href: address({ view: "scheduling", subject: rowKey(row) }), "aria-current": isChosen ? "true" : void 0, children: [
    /* @__PURE__ */ a4(Mark, { state: row.s }),
    " ",
    /* @__PURE__ */ a4("bdi", { children: `${row.n}/${row.m}` }),
    /* @__PURE__ */ a4("span", { class: "why", children: revision2 === void 0 ? row.t ?? "no attempt yet" : `→ ${row.d} at #${revision2}` })
  ] }) });
}
function usePlacement(key, exists) {
  const [found, setFound] = d2({ answer: null, problem: "", isOld: true });
  const [tries, setTries] = d2(0);
  const isLive2 = isLive.value;
  const revision2 = revision.value;
  const wanted = isLive2 ? `after ${model.lastWrite(key)?.r ?? 0}` : String(revision2);
  A(() => {
    const controller2 = new AbortController();
    const row = model.rows.get(key);
    if (!row || isReport) {
      setFound({ answer: row ? placementInReport(row, model, reportPlacements(key)) : null, problem: "", isOld: false });
      return;
    }
    setFound((last2) => ({ ...last2, isOld: true }));
    const timer = setTimeout(() => {
      const { namespace, name } = partsOf(key);
      placement(namespace, name, isLive2 ? null : revision2, controller2.signal).then(
        (answer) => setFound({ answer, problem: "", isOld: false }),
        (error) => !controller2.signal.aborted && setFound({ answer: null, problem: error.message, isOld: false })
      );
    }, SETTLE);
    return () => {
      clearTimeout(timer);
      controller2.abort();
    };
  }, [key, exists, isReport ? revision2 : wanted, tries]);
  return { ...found, again: () => setTries(tries + 1) };
}
function Place({ objectKey }) {
  const row = model.rows.get(objectKey) ?? null;
  const { answer, problem: problem2, isOld, again } = usePlacement(objectKey, row !== null);
  const { namespace, name } = partsOf(objectKey);
  const computed = answer?.computed;
  const at = isLive.value ? null : revision.value;
  return /* @__PURE__ */ a4(M, { children: [
    /* @__PURE__ */ a4(
      Card,
      {
        id: "placement",
        title: "Pod",
        note: isReport ? void 0 : /* @__PURE__ */ a4("button", { type: "button", class: "small", onClick: again, children: "ask again" }),
        children: /* @__PURE__ */ a4("div", { class: isOld && answer ? "place old" : "place", "aria-busy": isOld, children: [
          /* @__PURE__ */ a4("h3", { class: "pod", children: [
            /* @__PURE__ */ a4(Mark, { state: row?.s }),
            " ",
            /* @__PURE__ */ a4(ObjectLink, { row: { k: "pods", n: namespace, m: name }, hasNamespace: true })
          ] }),
          !row && /* @__PURE__ */ a4("p", { children: "This pod does not exist at this revision." }),
          problem2 && /* @__PURE__ */ a4("p", { class: "problem", children: problem2 }),
          !answer && !problem2 && row && /* @__PURE__ */ a4("p", { class: "faint", children: "reading the state of the cluster…" }),
          answer && /* @__PURE__ */ a4(State2, { answer })
        ] })
      }
    ),
    answer && /* @__PURE__ */ a4(Attempts, { records: answer.records }),
    computed && computed.nodes.length > 0 && /* @__PURE__ */ a4(Nodes2, { verdicts: computed, own: answer.node }),
    computed && answer.state === "pending" && /* @__PURE__ */ a4(Suggestions, { verdicts: computed }),
    answer && !isReport && (answer.state === "pending" || answer.state === "placed") && /* @__PURE__ */ a4(Card, { id: "commands", title: "What if", note: "to run in a terminal; they change nothing", children: /* @__PURE__ */ a4("ul", { class: "commands", children: commands(answer, at).map((text2) => /* @__PURE__ */ a4(Command, { text: text2 }, text2)) }) })
  ] });
}
function State2({ answer }) {
  const { computed, records, notes } = answer;
  const said = records[0]?.refused?.message;
  return /* @__PURE__ */ a4(M, { children: [
    answer.state === "ended" && /* @__PURE__ */ a4("p", { children: "It has ended and needs no node." }),
    answer.state === "gated" && /* @__PURE__ */ a4("p", { children: [
      "It waits for its scheduling gates: ",
      answer.schedulingGates?.join(", "),
      "."
    ] }),
    answer.state === "placed" && /* @__PURE__ */ a4("p", { children: [
      "It is on ",
      answer.node && /* @__PURE__ */ a4(ObjectLink, { row: { k: "nodes", m: answer.node } }),
      answer.bound && /* @__PURE__ */ a4(M, { children: [
        " ",
        "since ",
        /* @__PURE__ */ a4(RevisionLink, { revision: answer.bound.revision }),
        ", by ",
        answer.bound.by
      ] }),
      "."
    ] }),
    answer.state === "pending" && /* @__PURE__ */ a4("p", { children: computed && !computed.message ? "It is pending, and a node fits it: the next attempt places it." : "It is pending: no node fits it." }),
    computed?.message && /* @__PURE__ */ a4("p", { class: "why", children: computed.message }),
    said && said !== computed?.message && /* @__PURE__ */ a4("p", { class: "why", children: [
      "The scheduler said: ",
      said
    ] }),
    computed?.contradiction && /* @__PURE__ */ a4("p", { class: "why", children: [
      "No node can have it: ",
      computed.contradiction
    ] }),
    computed?.evictions && /* @__PURE__ */ a4("p", { children: [
      "Evictions would make room on ",
      /* @__PURE__ */ a4(ObjectLink, { row: { k: "nodes", m: computed.evictions.node } }),
      ": ",
      computed.evictions.pods.join(", "),
      "."
    ] }),
    computed && /* @__PURE__ */ a4("p", { class: "faint", children: [
      "Computed by the scheduler's own filters and scores from the state at ",
      /* @__PURE__ */ a4(RevisionLink, { revision: computed.revision }),
      answer.state === "placed" && (computed.isPresent ? ", the present one without the pod" : ", before the pod got its node"),
      computed.equalsRecord === true && "; equal to the record of the scheduler",
      computed.equalsRecord === false && "; differs from the record of the scheduler: other pods were being bound, or the state was another",
      "."
    ] }),
    computed && computed.unread.length > 0 && /* @__PURE__ */ a4("p", { class: "faint", children: [
      "Without ",
      computed.unread.join(", "),
      ", which you may not list."
    ] }),
    notes.map((note) => /* @__PURE__ */ a4("p", { class: "faint", children: note }, note))
  ] });
}
function Attempts({ records }) {
  const revision2 = isLive.value ? Infinity : revision.value;
  return /* @__PURE__ */ a4(Card, { id: "attempts", title: "Attempts", note: "as the scheduler recorded them; a revision leads to what it had read", children: [
    !records.length && /* @__PURE__ */ a4(Empty, { children: isReport ? "The report has no record of the scheduler about this pod." : "The scheduler of this server has no record: it keeps the newest ones in memory, and a scheduler in another process keeps its own." }),
    records.length > 0 && /* @__PURE__ */ a4("div", { class: "scroll", children: /* @__PURE__ */ a4("table", { children: [
      /* @__PURE__ */ a4("thead", { children: /* @__PURE__ */ a4("tr", { children: [
        /* @__PURE__ */ a4("th", { scope: "col", class: "number", children: "Attempt" }),
        /* @__PURE__ */ a4("th", { scope: "col", children: "Time" }),
        /* @__PURE__ */ a4("th", { scope: "col", children: "Had read" }),
        /* @__PURE__ */ a4("th", { scope: "col", children: "Result" })
      ] }) }),
      /* @__PURE__ */ a4("tbody", { children: records.map((record) => /* @__PURE__ */ a4("tr", { class: record.seen > revision2 ? "future" : "", children: [
        /* @__PURE__ */ a4("td", { class: "number", children: attemptNumbers(record) }),
        /* @__PURE__ */ a4("td", { class: "time", children: clock(Date.parse(record.lastTime ?? record.time)) }),
        /* @__PURE__ */ a4("td", { children: /* @__PURE__ */ a4(RevisionLink, { revision: record.seen }) }),
        /* @__PURE__ */ a4("td", { class: "wide", children: attemptText(record) })
      ] }, record.attempt)) })
    ] }) })
  ] });
}
function Nodes2({ verdicts, own: own2 }) {
  const [showsAll, setAll] = d2(false);
  const { nodes, filters, scores, moreNodes } = verdicts;
  const fitting = nodes.filter(({ fits }) => fits).length;
  const shown = showsAll ? nodes : nodes.slice(0, FIRST_NODES);
  const columns = fitting ? scores.map(({ plugin, weight }) => [plugin, ` ×${weight}`]) : filters.map((plugin) => [plugin, ""]);
  const note = `${fitting} of ${count(nodes.length + moreNodes, "node")} ${fitting === 1 ? "fits" : "fit"}${moreNodes ? `, at least; ${moreNodes} further ones are left out` : ""}`;
  return /* @__PURE__ */ a4(Card, { id: "verdicts", title: "Nodes", note, children: [
    /* @__PURE__ */ a4("div", { class: "scroll", children: /* @__PURE__ */ a4("table", { class: "verdicts", children: [
      /* @__PURE__ */ a4("thead", { children: /* @__PURE__ */ a4("tr", { children: [
        /* @__PURE__ */ a4("th", { scope: "col", children: "Node" }),
        fitting ? /* @__PURE__ */ a4("th", { scope: "col", class: "number", children: "Total" }) : /* @__PURE__ */ a4("th", { scope: "col", children: "Lacks" }),
        columns.map(([plugin, weight]) => /* @__PURE__ */ a4("th", { scope: "col", class: fitting ? "number" : "verdict", title: plugin, children: [
          shortPlugin(plugin),
          weight
        ] }, plugin)),
        fitting > 0 && /* @__PURE__ */ a4("th", { scope: "col", children: "Against the first" })
      ] }) }),
      /* @__PURE__ */ a4("tbody", { children: shown.map((verdict) => /* @__PURE__ */ a4("tr", { class: verdict.node === own2 ? "current" : "", children: [
        /* @__PURE__ */ a4("th", { scope: "row", children: [
          /* @__PURE__ */ a4(ObjectLink, { row: { k: "nodes", m: verdict.node } }),
          verdict.node === own2 && /* @__PURE__ */ a4("span", { class: "faint", children: " has it" })
        ] }),
        fitting ? /* @__PURE__ */ a4(Scores, { verdict, verdicts }) : /* @__PURE__ */ a4(Refusals, { verdict, filters })
      ] }, verdict.node)) })
    ] }) }),
    nodes.length > shown.length && /* @__PURE__ */ a4("p", { class: "note", children: /* @__PURE__ */ a4("button", { type: "button", class: "small", onClick: () => setAll(true), children: [
      "show ",
      count(nodes.length, "node")
    ] }) })
  ] });
}
function Scores({ verdict, verdicts }) {
  return /* @__PURE__ */ a4(M, { children: [
    /* @__PURE__ */ a4("td", { class: "number", children: verdict.total ?? "–" }),
    verdicts.scores.map(({ plugin }) => /* @__PURE__ */ a4("td", { class: "number", children: verdict.scores[plugin] ?? "" }, plugin)),
    /* @__PURE__ */ a4("td", { class: "why wide", children: verdict.fits ? behindFirst(verdicts, verdict) : `lacks ${lacksOf(verdict)}` })
  ] });
}
function Refusals({ verdict, filters }) {
  const refusing = new Set(verdict.refusals.map(({ plugin }) => plugin));
  return /* @__PURE__ */ a4(M, { children: [
    /* @__PURE__ */ a4("td", { class: "wide", children: lacksOf(verdict) }),
    filters.map((plugin) => /* @__PURE__ */ a4("td", { class: refusing.has(plugin) ? "verdict refuses" : "verdict passes", children: [
      /* @__PURE__ */ a4("span", { "aria-hidden": "true", children: refusing.has(plugin) ? "✗" : "✓" }),
      /* @__PURE__ */ a4("span", { class: "hidden", children: refusing.has(plugin) ? "refuses" : "passes" })
    ] }, plugin))
  ] });
}
var PARTS = { pod: "the pod", node: "a node", otherPods: "other pods" };
function Suggestions({ verdicts }) {
  return /* @__PURE__ */ a4(Card, { id: "helps", title: "Smallest changes that help", note: `each tried on a copy of #${verdicts.revision}`, children: [
    !verdicts.suggestions.length && /* @__PURE__ */ a4(Empty, { children: verdicts.message ? "No single change that was tried places the pod." : "It needs none." }),
    verdicts.suggestions.length > 0 && /* @__PURE__ */ a4("div", { class: "scroll", children: /* @__PURE__ */ a4("table", { children: [
      /* @__PURE__ */ a4("thead", { children: /* @__PURE__ */ a4("tr", { children: [
        /* @__PURE__ */ a4("th", { scope: "col", children: "Of" }),
        /* @__PURE__ */ a4("th", { scope: "col", children: "Change" }),
        /* @__PURE__ */ a4("th", { scope: "col", children: "Then on" })
      ] }) }),
      /* @__PURE__ */ a4("tbody", { children: verdicts.suggestions.map(({ part, change, node }) => /* @__PURE__ */ a4("tr", { children: [
        /* @__PURE__ */ a4("td", { class: "faint", children: PARTS[part] }),
        /* @__PURE__ */ a4("td", { class: "wide", children: /* @__PURE__ */ a4("bdi", { children: change }) }),
        /* @__PURE__ */ a4("td", { children: node })
      ] }, `${change} ${node}`)) })
    ] }) })
  ] });
}
function Command({ text: text2 }) {
  const [copied, setCopied] = d2("");
  const copy = () => navigator.clipboard.writeText(text2).then(
    () => setCopied("copied"),
    () => setCopied("the browser does not allow it")
  );
  return /* @__PURE__ */ a4("li", { children: [
    /* @__PURE__ */ a4("code", { children: text2 }),
    /* @__PURE__ */ a4("button", { type: "button", class: "small", onClick: copy, children: "copy" }),
    /* @__PURE__ */ a4("span", { class: "faint", role: "status", children: copied })
  ] });
}

// src/metrics.ts
var LONG = /* @__PURE__ */ new Set(["WATCH", "CONNECT", "PROXY"]);
var WRITES = /* @__PURE__ */ new Set(["create", "update", "delete"]);
function read2(text2, t4) {
  const reading = { t: t4, started: 0, requests: /* @__PURE__ */ new Map(), failures: 0, durations: /* @__PURE__ */ new Map(), writes: 0, events: 0, processor: 0, memory: 0, watches: 0, objects: 0, storage: 0, live: 0, restarts: 0 };
  for (const line of text2.split("\n")) {
    const end = line.search(/[{ ]/);
    const take = end < 0 ? void 0 : TAKE[line.slice(0, end)];
    if (!take) continue;
    const value = line.slice(line[end] === "{" ? line.lastIndexOf("}") + 2 : end + 1);
    take(reading, Number(value.split(" ")[0]), (name) => label(line, name));
  }
  return reading;
}
function label(line, name) {
  const at = Math.max(line.indexOf(`{${name}="`), line.indexOf(`,${name}="`));
  if (at < 0) return "";
  const start2 = at + name.length + 3;
  return line.slice(start2, line.indexOf('"', start2));
}
var TAKE = {
  apiserver_request_total: (reading, value, label2) => {
    add2(reading.requests, label2("verb"), value);
    const code = Number(label2("code"));
    if (code >= 500 || code === 429) reading.failures += value;
  },
  apiserver_request_duration_seconds_bucket: (reading, value, label2) => {
    const verb = label2("verb");
    if (LONG.has(verb)) return;
    const bound2 = label2("le");
    const known = reading.durations.get(verb) ?? /* @__PURE__ */ new Map();
    reading.durations.set(verb, known);
    add2(known, bound2 === "+Inf" ? Infinity : Number(bound2), value);
  },
  etcd_requests_total: (reading, value, label2) => {
    if (WRITES.has(label2("operation"))) reading.writes += value;
  },
  apiserver_watch_events_total: (reading, value) => void (reading.events += value),
  apiserver_longrunning_requests: (reading, value, label2) => {
    if (label2("verb") === "WATCH") reading.watches += value;
  },
  apiserver_storage_objects: (reading, value) => void (reading.objects += Math.max(0, value)),
  apiserver_storage_size_bytes: (reading, value) => void (reading.storage += value),
  kstore_storage_live_bytes: (reading, value) => void (reading.live = value),
  kstore_component_restarts_total: (reading, value) => void (reading.restarts += value),
  process_cpu_seconds_total: (reading, value) => void (reading.processor = value),
  process_resident_memory_bytes: (reading, value) => void (reading.memory = value),
  process_start_time_seconds: (reading, value) => void (reading.started = value)
};
function add2(map, key, value) {
  map.set(key, (map.get(key) ?? 0) + value);
}
function loadBetween(before, after) {
  const seconds = (after.t - before.t) / 1e3;
  if (seconds <= 0 || before.started !== after.started) return null;
  const rate = (of) => Math.max(0, of(after) - of(before)) / seconds;
  const { t: t4, memory, watches } = after;
  return { t: t4, requests: rate(({ requests }) => total(requests)), failures: rate(({ failures }) => failures), writes: rate(({ writes }) => writes), events: rate(({ events }) => events), processor: rate(({ processor }) => processor), memory, watches };
}
var requestsUpTo = ({ requests }) => total(requests);
function writeRates(times, parts) {
  const [first, last2] = [times[0] ?? 0, times[times.length - 1] ?? 0];
  const width = (last2 - first) / parts;
  if (!(width > 0)) return [];
  const counts = new Array(parts).fill(0);
  for (const time of times) counts[Math.min(parts - 1, Math.floor((time - first) / width))]++;
  return counts.map((value, at) => ({ t: first + width * (at + 1), value: value / (width / 1e3) }));
}
var total = (counts) => [...counts.values()].reduce((sum, value) => sum + value, 0);
function verbsBetween(before, after) {
  const seconds = (after.t - before.t) / 1e3;
  return seconds <= 0 || before.started !== after.started ? [] : verbsAfter(before, after, seconds);
}
var verbsUpTo = (reading) => verbsAfter(read2("", 0), reading, 1);
function verbsAfter(before, after, seconds) {
  const found = [];
  for (const [verb, requests] of after.requests) {
    const number = requests - (before.requests.get(verb) ?? 0);
    if (number <= 0) continue;
    const old = before.durations.get(verb);
    const counts = [...after.durations.get(verb) ?? []].map(([bound2, below2]) => [bound2, below2 - (old?.get(bound2) ?? 0)]);
    found.push({ verb, number, rate: number / seconds, p50: quantile(counts, 0.5), p99: quantile(counts, 0.99) });
  }
  return found.sort((a5, b3) => b3.rate - a5.rate || (a5.verb < b3.verb ? -1 : 1));
}
function quantile(counts, share) {
  const sorted = [...counts].sort(([a5], [b3]) => a5 - b3);
  const all = sorted.length ? sorted[sorted.length - 1][1] : 0;
  if (all <= 0) return null;
  return sorted.find(([, below2]) => below2 >= all * share)?.[0] ?? null;
}
function bound(seconds) {
  if (seconds === null) return "–";
  if (seconds === Infinity) return "more than a minute";
  return seconds < 1 ? `≤ ${Math.round(seconds * 1e3)} ms` : `≤ ${seconds} s`;
}
function short(value) {
  if (value >= 1e3) return `${(value / 1e3).toFixed(1)}k`;
  return value >= 10 || Number.isInteger(value) ? String(Math.round(value)) : value.toFixed(1);
}
function bytes2(value) {
  if (value >= 2 ** 30) return `${(value / 2 ** 30).toFixed(1)} GiB`;
  return value >= 2 ** 20 ? `${Math.round(value / 2 ** 20)} MiB` : `${Math.round(value / 1024)} KiB`;
}
function chartLine(points, span, width, height) {
  const last2 = [...points].reverse().find(Boolean)?.t ?? 0;
  const most = Math.max(...points.map((point) => point?.value ?? 0), Number.MIN_VALUE);
  let isNew = true;
  let line = "";
  for (const point of points) {
    const isShown = point !== null && last2 - point.t <= span;
    if (isShown) {
      const x3 = width * (1 - (last2 - point.t) / span);
      line += `${isNew ? "M" : "L"}${x3.toFixed(1)} ${(height * (1 - point.value / most)).toFixed(1)}`;
    }
    isNew = !isShown;
  }
  return line;
}

// src/load.ts
var INTERVAL = 5e3;
var SPAN = 15 * 6e4;
var MINUTE = 6e4;
var REVISIONS_EVERY = 12;
var loads = y3([]);
var verbs = y3([]);
var last = y3(null);
var revisions2 = y3(null);
var serverVersion2 = y3("");
var problem = y3(null);
var recent = [];
function begin() {
  const controller2 = new AbortController();
  void run2(controller2.signal);
  return () => controller2.abort();
}
async function run2(stop) {
  serverVersion().then(({ gitVersion }) => serverVersion2.value = gitVersion, () => serverVersion2.value = "");
  for (let count2 = 0; !stop.aborted; count2++) {
    if (!document.hidden) {
      try {
        const text2 = await metrics(stop);
        add3(read2(text2, Date.now()));
        if (count2 % REVISIONS_EVERY === 0) revisions2.value = await revisions();
      } catch (error) {
        if (stop.aborted) return;
        problem.value = error;
        const code = error instanceof Refusal ? error.code : 0;
        if (code === 401 || code === 403 || code === 404) return;
      }
    }
    await new Promise((resolve) => setTimeout(resolve, INTERVAL));
  }
}
function add3(reading) {
  const before = last.value;
  const isNext = before !== null && reading.t - before.t < 3 * INTERVAL;
  const load2 = isNext ? loadBetween(before, reading) : null;
  recent = isNext && load2 ? [...recent, reading].filter(({ t: t4 }) => reading.t - t4 <= MINUTE) : [reading];
  r3(() => {
    problem.value = null;
    last.value = reading;
    if (before) loads.value = [...loads.value, load2].slice(-Math.ceil(SPAN / INTERVAL));
    verbs.value = verbsBetween(recent[0], reading);
  });
}

// src/views/server.tsx
var WIDTH2 = 300;
var HEIGHT = 60;
var SHORTEST = 6e4;
var CHARTS = [
  { id: "requests", title: "Requests per second", of: ({ requests }) => requests, text: short },
  { id: "failures", title: "Failures per second", of: ({ failures }) => failures, text: short },
  { id: "writes", title: "Writes per second", of: ({ writes }) => writes, text: short },
  { id: "events", title: "Watch events per second", of: ({ events }) => events, text: short },
  { id: "watches", title: "Open watches", of: ({ watches }) => watches, text: short },
  { id: "processor", title: "CPU, of one core", of: ({ processor }) => processor, text: (value) => `${(value * 100).toFixed(0)} %` },
  { id: "memory", title: "Memory", of: ({ memory }) => memory, text: bytes2 }
];
var PARTS2 = 60;
var Server = () => isReport ? /* @__PURE__ */ a4(ReportedServer, {}) : /* @__PURE__ */ a4(RunningServer, {});
function RunningServer() {
  A(() => begin(), []);
  const problem2 = problem.value;
  const last2 = last.value;
  if (problem2 && !last2) return /* @__PURE__ */ a4(Refused, { problem: problem2 });
  return /* @__PURE__ */ a4("div", { class: "server", children: [
    /* @__PURE__ */ a4(Facts, {}),
    problem2 && /* @__PURE__ */ a4("p", { class: "problem", children: [
      "No new readings: ",
      problem2.message
    ] }),
    showsTables.value ? /* @__PURE__ */ a4(Readings, {}) : /* @__PURE__ */ a4("div", { class: "charts", children: CHARTS.map((chart) => /* @__PURE__ */ a4(Chart, { ...chart }, chart.id)) }),
    /* @__PURE__ */ a4(Verbs, { verbs: verbs.value, note: "of the last minute" })
  ] });
}
function Refused({ problem: problem2 }) {
  const isForbidden = problem2 instanceof Refusal && problem2.code === 403;
  return /* @__PURE__ */ a4(Card, { id: "server", title: "Server", children: /* @__PURE__ */ a4("div", { class: "place", children: [
    /* @__PURE__ */ a4("p", { class: "problem", children: problem2.message }),
    isForbidden && /* @__PURE__ */ a4("p", { children: [
      "This view reads ",
      /* @__PURE__ */ a4("code", { children: "/metrics" }),
      ", which the ClusterRole ",
      /* @__PURE__ */ a4("code", { children: "system:monitoring" }),
      " allows. An administrator can bind it:",
      " ",
      /* @__PURE__ */ a4("code", { children: [
        "kubectl create clusterrolebinding NAME --clusterrole=system:monitoring --user=",
        about.value?.user
      ] })
    ] })
  ] }) });
}
function Facts() {
  const last2 = last.value;
  const revisions3 = revisions2.value;
  return /* @__PURE__ */ a4(Card, { id: "server", title: "Server", note: "as it is now, wherever the slider is", children: [
    !last2 && /* @__PURE__ */ a4(Empty, { children: "reading the metrics…" }),
    last2 && /* @__PURE__ */ a4("dl", { class: "facts", children: [
      /* @__PURE__ */ a4(Fact, { name: "Version", children: serverVersion2.value || "unknown" }),
      /* @__PURE__ */ a4(Fact, { name: "Up for", children: last2.started ? age(last2.t - last2.started * 1e3) : "unknown" }),
      /* @__PURE__ */ a4(Fact, { name: "Objects", children: last2.objects.toLocaleString("en") }),
      /* @__PURE__ */ a4(Size, { reading: last2 }),
      revisions3 && /* @__PURE__ */ a4(Fact, { name: "Revisions", children: [
        /* @__PURE__ */ a4(RevisionLink, { revision: revisions3.newest.revision }),
        " is the newest; history from #",
        revisions3.compacted,
        " on"
      ] }),
      /* @__PURE__ */ a4(Fact, { name: "Restarts of components", children: last2.restarts })
    ] })
  ] });
}
function ReportedServer() {
  const found = reportReading();
  const about2 = aboutReport();
  const reading = found ? read2(found.metrics, Date.parse(about2?.time ?? "")) : null;
  const isReal = about2?.clock === "real";
  return /* @__PURE__ */ a4("div", { class: "server", children: [
    /* @__PURE__ */ a4(Card, { id: "server", title: "Server", note: "at the end of the report; numbers are since its start", children: [
      !reading && /* @__PURE__ */ a4(Empty, { children: "The report has no metrics: its user may not read /metrics, which the ClusterRole system:monitoring allows." }),
      reading && /* @__PURE__ */ a4("dl", { class: "facts", children: [
        /* @__PURE__ */ a4(Fact, { name: "Version", children: found?.version ?? "unknown" }),
        isReal && reading.started > 0 && /* @__PURE__ */ a4(Fact, { name: "Up for", children: age(reading.t - reading.started * 1e3) }),
        /* @__PURE__ */ a4(Fact, { name: "Objects", children: reading.objects.toLocaleString("en") }),
        /* @__PURE__ */ a4(Size, { reading }),
        /* @__PURE__ */ a4(Fact, { name: "Requests", children: requestsUpTo(reading).toLocaleString("en") }),
        /* @__PURE__ */ a4(Fact, { name: "Failures", children: reading.failures.toLocaleString("en") }),
        /* @__PURE__ */ a4(Fact, { name: "Writes", children: reading.writes.toLocaleString("en") }),
        /* @__PURE__ */ a4(Fact, { name: "Watch events", children: reading.events.toLocaleString("en") }),
        /* @__PURE__ */ a4(Fact, { name: "Open watches", children: reading.watches }),
        /* @__PURE__ */ a4(Fact, { name: "CPU time of the process", children: [
          reading.processor.toFixed(1),
          " s"
        ] }),
        /* @__PURE__ */ a4(Fact, { name: "Memory of the process", children: bytes2(reading.memory) }),
        /* @__PURE__ */ a4(Fact, { name: "Restarts of components", children: reading.restarts })
      ] })
    ] }),
    /* @__PURE__ */ a4(WritesOverTime, {}),
    reading && /* @__PURE__ */ a4(Verbs, { verbs: verbsUpTo(reading), note: "since the start", isTotal: true })
  ] });
}
function WritesOverTime() {
  const points = writeRates(model.writes.map(({ t: t4 }) => t4), PARTS2);
  const span = points.length ? points[points.length - 1].t - points[0].t : 0;
  const most = short(Math.max(0, ...points.map(({ value }) => value)));
  const first = model.writes[0]?.t ?? 0;
  const last2 = model.newest();
  return /* @__PURE__ */ a4(Card, { id: "writes", title: "Writes per second", note: `of ${model.writes.length.toLocaleString("en")} writes up to #${last2}`, children: [
    !points.length && /* @__PURE__ */ a4(Empty, { children: "All writes are of one moment." }),
    points.length > 0 && !showsTables.value && /* @__PURE__ */ a4(M, { children: [
      /* @__PURE__ */ a4("svg", { class: "chart", viewBox: `0 -2 ${WIDTH2} ${HEIGHT + 4}`, preserveAspectRatio: "none", role: "img", "aria-label": `Writes per second from ${second(first)} to ${second(points[points.length - 1].t)}: at most ${most}. The key t shows the numbers.`, children: [
        /* @__PURE__ */ a4("path", { d: `M0 ${HEIGHT}H${WIDTH2}`, class: "base" }),
        /* @__PURE__ */ a4("path", { d: chartLine(points, span, WIDTH2, HEIGHT), class: "series" })
      ] }),
      /* @__PURE__ */ a4("p", { class: "axis", "aria-hidden": "true", children: [
        /* @__PURE__ */ a4("span", { children: second(first) }),
        /* @__PURE__ */ a4("span", { children: [
          "at most ",
          most
        ] }),
        /* @__PURE__ */ a4("span", { children: second(points[points.length - 1].t) })
      ] })
    ] }),
    points.length > 0 && showsTables.value && /* @__PURE__ */ a4("div", { class: "scroll", tabIndex: 0, role: "region", "aria-label": "Writes over time", children: /* @__PURE__ */ a4("table", { id: "rates", children: [
      /* @__PURE__ */ a4("thead", { children: /* @__PURE__ */ a4("tr", { children: [
        /* @__PURE__ */ a4("th", { scope: "col", children: "Up to" }),
        /* @__PURE__ */ a4("th", { scope: "col", class: "number", children: "Writes per second" })
      ] }) }),
      /* @__PURE__ */ a4("tbody", { children: points.map(({ t: t4, value }) => /* @__PURE__ */ a4("tr", { children: [
        /* @__PURE__ */ a4("td", { class: "time", children: second(t4) }),
        /* @__PURE__ */ a4("td", { class: "number", children: value.toFixed(2) })
      ] }, t4)) })
    ] }) })
  ] });
}
function Size({ reading }) {
  if (!reading.storage && !reading.live) return null;
  return /* @__PURE__ */ a4(Fact, { name: "Store", children: [
    bytes2(reading.storage),
    ", ",
    bytes2(reading.live),
    " of it live"
  ] });
}
function Fact({ name, children }) {
  return /* @__PURE__ */ a4("div", { children: [
    /* @__PURE__ */ a4("dt", { children: name }),
    /* @__PURE__ */ a4("dd", { children })
  ] });
}
function Chart({ id, title, of, text: text2 }) {
  const points = loads.value.map((one) => one && { t: one.t, value: of(one) });
  const known = points.filter((point) => point !== null);
  const values = known.map(({ value }) => value);
  const span = Math.min(SPAN, Math.max(SHORTEST, known.length ? known[known.length - 1].t - known[0].t : 0));
  const now2 = points[points.length - 1];
  const most = text2(Math.max(0, ...values));
  return /* @__PURE__ */ a4(Card, { id, title, note: now2 ? text2(now2.value) : "…", children: [
    /* @__PURE__ */ a4("svg", { class: "chart", viewBox: `0 -2 ${WIDTH2} ${HEIGHT + 4}`, preserveAspectRatio: "none", role: "img", "aria-label": `${title} over the last ${age(span)}: now ${now2 ? text2(now2.value) : "unknown"}, at most ${most}. The key t shows the numbers.`, children: [
      /* @__PURE__ */ a4("path", { d: `M0 ${HEIGHT}H${WIDTH2}`, class: "base" }),
      /* @__PURE__ */ a4("path", { d: chartLine(points, span, WIDTH2, HEIGHT), class: "series" })
    ] }),
    /* @__PURE__ */ a4("p", { class: "axis", "aria-hidden": "true", children: [
      /* @__PURE__ */ a4("span", { children: [
        age(span),
        " ago"
      ] }),
      /* @__PURE__ */ a4("span", { children: [
        "at most ",
        most
      ] }),
      /* @__PURE__ */ a4("span", { children: "now" })
    ] })
  ] });
}
function Readings() {
  const found = loads.value.filter((one) => one !== null).reverse();
  return /* @__PURE__ */ a4(Card, { id: "readings", title: "Readings", note: `one in ${INTERVAL / 1e3} seconds while this view is open`, children: [
    !found.length && /* @__PURE__ */ a4(Empty, { children: "The second reading gives the first numbers." }),
    found.length > 0 && /* @__PURE__ */ a4("div", { class: "scroll", children: /* @__PURE__ */ a4("table", { children: [
      /* @__PURE__ */ a4("thead", { children: /* @__PURE__ */ a4("tr", { children: [
        /* @__PURE__ */ a4("th", { scope: "col", children: "Time" }),
        CHARTS.map(({ id, title }) => /* @__PURE__ */ a4("th", { scope: "col", class: "number", children: title }, id))
      ] }) }),
      /* @__PURE__ */ a4("tbody", { children: found.map((one) => /* @__PURE__ */ a4("tr", { children: [
        /* @__PURE__ */ a4("td", { class: "time", children: second(one.t) }),
        CHARTS.map(({ id, of, text: text2 }) => /* @__PURE__ */ a4("td", { class: "number", children: text2(of(one)) }, id))
      ] }, one.t)) })
    ] }) })
  ] });
}
function Verbs({ verbs: verbs2, note, isTotal = false }) {
  return /* @__PURE__ */ a4(Card, { id: "verbs", title: "Requests by verb", note, children: [
    !verbs2.length && /* @__PURE__ */ a4(Empty, { children: isTotal ? "There were none." : "There were none between two readings." }),
    verbs2.length > 0 && /* @__PURE__ */ a4("div", { class: "scroll", children: /* @__PURE__ */ a4("table", { children: [
      /* @__PURE__ */ a4("thead", { children: /* @__PURE__ */ a4("tr", { children: [
        /* @__PURE__ */ a4("th", { scope: "col", children: "Verb" }),
        /* @__PURE__ */ a4("th", { scope: "col", class: "number", children: isTotal ? "Requests" : "Per second" }),
        /* @__PURE__ */ a4("th", { scope: "col", class: "number", title: "half of them took no longer", children: "p50" }),
        /* @__PURE__ */ a4("th", { scope: "col", class: "number", title: "99 of 100 took no longer", children: "p99" })
      ] }) }),
      /* @__PURE__ */ a4("tbody", { children: verbs2.map(({ verb, number, rate, p50, p99 }) => /* @__PURE__ */ a4("tr", { children: [
        /* @__PURE__ */ a4("th", { scope: "row", children: verb }),
        /* @__PURE__ */ a4("td", { class: "number", children: isTotal ? number.toLocaleString("en") : rate.toFixed(2) }),
        /* @__PURE__ */ a4("td", { class: "number", children: bound(p50) }),
        /* @__PURE__ */ a4("td", { class: "number", children: bound(p99) })
      ] }, verb)) })
    ] }) })
  ] });
}

// src/views/canvas.ts
function useSize(place2) {
  const [size, setSize] = d2([0, 0]);
  A(() => {
    if (!place2.current) return;
    const element2 = place2.current;
    const observer = new ResizeObserver(() => setSize([element2.clientWidth, element2.clientHeight]));
    observer.observe(element2);
    setSize([element2.clientWidth, element2.clientHeight]);
    return () => observer.disconnect();
  }, []);
  return size;
}
function fit(canvas, width, height) {
  const context = canvas?.getContext("2d") ?? null;
  if (!canvas || !context || !width || !height) return null;
  const ratio = devicePixelRatio || 1;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
  }
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  return context;
}
var NAMES = ["text", "faint", "line", "track", "bar", "accent", "head", "surface", "stripe", "select", "font", "s-ready", "s-progress", "s-unready", "s-pending", "s-done", "s-failed", "s-idle", "s-ending", "s-warning", "s-plain"];
function palette(element2) {
  const style = getComputedStyle(element2);
  return Object.fromEntries(NAMES.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
}
var markColor = (colors, kind) => ({ fault: colors["s-failed"], test: colors.head, tag: colors["s-idle"] })[kind];
function markSign(context, kind, x3, y5) {
  context.lineWidth = 2;
  context.beginPath();
  if (kind === "fault") {
    context.moveTo(x3 - 4, y5 - 4);
    context.lineTo(x3 + 4, y5 + 4);
    context.moveTo(x3 + 4, y5 - 4);
    context.lineTo(x3 - 4, y5 + 4);
    context.stroke();
  } else if (kind === "test") {
    context.moveTo(x3, y5 - 5);
    context.lineTo(x3 + 8, y5 - 2);
    context.lineTo(x3, y5 + 1);
    context.fill();
  } else {
    context.arc(x3, y5, 3.5, 0, 2 * Math.PI);
    context.stroke();
  }
  context.lineWidth = 1;
}
function hatch(context, from, to, height, color) {
  const right = Math.max(to, from + 3);
  context.save();
  context.beginPath();
  context.rect(from, 0, right - from, height);
  context.clip();
  context.globalAlpha = 0.5;
  context.strokeStyle = color;
  context.lineWidth = 1;
  context.beginPath();
  for (let x3 = from - height; x3 < right; x3 += 6) {
    context.moveTo(x3, height);
    context.lineTo(x3 + height, 0);
  }
  context.stroke();
  context.restore();
}

// src/views/slider.tsx
var BAR = 4;
var MARK = 6;
var MOST_HIT = 4;
function Slider() {
  void version.value;
  const { model: model2, scale: scale2 } = store_exports;
  const write2 = model2.current();
  const touch = write2?.touches[0];
  return /* @__PURE__ */ a4("footer", { class: "slider", children: [
    /* @__PURE__ */ a4(Track, {}),
    /* @__PURE__ */ a4("div", { class: "controls", children: [
      /* @__PURE__ */ a4("span", { class: "buttons", role: "group", "aria-label": "Move through the revisions", children: [
        /* @__PURE__ */ a4(Button, { label: "To the oldest revision (Home)", onClick: () => moveTo(0), path: "M2 2h1.7v8H2zM10 2 4.8 6 10 10z" }),
        /* @__PURE__ */ a4(Button, { label: "To the previous change from outside (Shift ←)", onClick: () => moveTo(model2.nextOutside(-1)), path: "M6.5 2 2.5 6l4 4zM11 2 7 6l4 4z" }),
        /* @__PURE__ */ a4(Button, { label: "One revision back (←)", onClick: () => moveTo(model2.at - 1), path: "M8.5 2 3.5 6l5 4z" }),
        /* @__PURE__ */ a4(Button, { label: isPlaying.value ? "Pause (Space)" : "Play (Space)", onClick: () => isPlaying.value = !isPlaying.value, path: isPlaying.value ? "M3 2h2.2v8H3zM7 2h2.2v8H7z" : "M3 1.5 10 6l-7 4.5z" }),
        /* @__PURE__ */ a4(Button, { label: "One revision on (→)", onClick: () => moveTo(model2.at + 1), path: "M3.5 2 8.5 6l-5 4z" }),
        /* @__PURE__ */ a4(Button, { label: "To the next change from outside (Shift →)", onClick: () => moveTo(model2.nextOutside(1)), path: "M1 2 5 6l-4 4zM5.5 2l4 4-4 4z" })
      ] }),
      /* @__PURE__ */ a4("span", { class: "where", children: [
        /* @__PURE__ */ a4("strong", { class: "rev", children: [
          "#",
          model2.revision()
        ] }),
        write2 ? /* @__PURE__ */ a4(M, { children: [
          /* @__PURE__ */ a4("time", { title: dateTime(write2.t), children: clock(write2.t) }),
          /* @__PURE__ */ a4("span", { class: "what", children: [
            /* @__PURE__ */ a4(Writer, { write: write2 }),
            " ",
            /* @__PURE__ */ a4("span", { class: "verb", children: write2.verb || touch?.effect }),
            " ",
            touch && /* @__PURE__ */ a4(KeyLink, { objectKey: touch.key, hasNamespace: true }),
            write2.touches.length > 1 && /* @__PURE__ */ a4("span", { class: "faint", children: [
              " and ",
              write2.touches.length - 1,
              " more"
            ] })
          ] })
        ] }) : /* @__PURE__ */ a4("span", { class: "faint", children: [
          "the beginning of this window: ",
          scale2.positions.length ? "what was written before is not listed" : "nothing was written since"
        ] })
      ] }),
      /* @__PURE__ */ a4(LiveButton, {})
    ] })
  ] });
}
function LiveButton() {
  if (isReport) {
    return /* @__PURE__ */ a4("button", { type: "button", class: "live past", onClick: now, disabled: isLive.value, title: "To the newest revision of the report (End)", children: isLive.value ? "end of the report" : "to the end of the report" });
  }
  if (isLive.value) {
    return /* @__PURE__ */ a4("span", { class: isConnected.value ? "live on" : "live off", role: "status", children: [
      /* @__PURE__ */ a4("span", { class: "dot", "aria-hidden": "true" }),
      " ",
      isConnected.value ? "live" : "reconnecting"
    ] });
  }
  return /* @__PURE__ */ a4("button", { type: "button", class: "live past", onClick: now, title: "Follow new revisions (End)", children: [
    behind.value ? `${count(behind.value, "revision")} behind · ` : "",
    "go to now"
  ] });
}
function Button({ label: label2, path, onClick }) {
  return /* @__PURE__ */ a4("button", { type: "button", class: "icon", "aria-label": label2, title: label2, onClick, children: /* @__PURE__ */ a4("svg", { viewBox: "0 0 12 12", width: "12", height: "12", "aria-hidden": "true", children: /* @__PURE__ */ a4("path", { d: path }) }) });
}
function Track() {
  const place2 = T2(null);
  const canvas = T2(null);
  const [width, height] = useSize(place2);
  const [hover, setHover] = d2(null);
  const { model: model2, scale: scale2 } = store_exports;
  const at = model2.at;
  const length = scale2.length();
  const dark = theme.value;
  const marks2 = marks.value;
  A(() => {
    const context = fit(canvas.current, width, height);
    if (!context) return;
    const colors = palette(canvas.current);
    const number = Math.max(1, Math.floor(width / BAR));
    const found = bins(scale2, (index) => model2.writes[index].outside, 0, length, number);
    const most = Math.max(1, ...found.all);
    context.clearRect(0, 0, width, height);
    const head = scale2.of(at) / length * width;
    context.fillStyle = colors.track;
    context.fillRect(0, height - 2, width, 2);
    for (const gap of model2.gaps) hatch(context, scale2.of(gap.from) / length * width, scale2.of(gap.to) / length * width, height, colors.faint);
    for (let bin = 0; bin < number; bin++) {
      if (!found.all[bin]) continue;
      const x3 = bin * BAR;
      const isPast = x3 <= head + 1;
      const tall = 3 + Math.log1p(found.all[bin]) / Math.log1p(most) * (height - 12);
      context.globalAlpha = isPast ? 1 : 0.35;
      context.fillStyle = found.outside[bin] ? colors.accent : colors.bar;
      context.fillRect(x3, height - 2 - tall, BAR - 1, tall);
      if (found.outside[bin]) {
        context.beginPath();
        context.moveTo(x3 + 1.5, height - tall - 9);
        context.lineTo(x3 + 4.5, height - tall - 6);
        context.lineTo(x3 + 1.5, height - tall - 3);
        context.lineTo(x3 - 1.5, height - tall - 6);
        context.fill();
      }
    }
    context.globalAlpha = 1;
    context.fillStyle = colors.faint;
    for (const fold of scale2.folds) {
      const from = scale2.of(fold) / length * width;
      for (let dot = 0; dot < 3; dot++) context.fillRect(from - 8 - dot * 4, height - 6, 2, 2);
    }
    for (const mark of marks2) {
      const x3 = markPosition(mark, model2, scale2) / length * width;
      context.fillStyle = context.strokeStyle = markColor(colors, mark.kind);
      context.fillRect(x3 - 0.5, 0, 1, height);
      markSign(context, mark.kind, Math.min(Math.max(x3, 5), width - 9), 6);
    }
    context.fillStyle = colors.head;
    context.fillRect(head - 1, 0, 2, height);
    context.beginPath();
    context.moveTo(head - 5, 0);
    context.lineTo(head + 5, 0);
    context.lineTo(head, 7);
    context.fill();
  }, [width, height, at, length, dark, marks2, version.value]);
  const countAt = (x3) => scale2.countAt(x3 / Math.max(1, width) * length);
  const move = (event) => {
    const x3 = event.clientX - place2.current.getBoundingClientRect().left;
    if (event.buttons & 1) moveTo(countAt(x3));
    setHover(x3);
  };
  const down = (event) => {
    place2.current.setPointerCapture(event.pointerId);
    isPlaying.value = false;
    move(event);
  };
  const hovered = hover === null ? null : model2.writes[countAt(hover) - 1] ?? null;
  const hit = hover === null ? [] : marksNear(marks2, hover / Math.max(1, width) * length, MARK / Math.max(1, width) * length, model2, scale2);
  const write2 = model2.current();
  return /* @__PURE__ */ a4(
    "div",
    {
      class: "track",
      ref: place2,
      role: "slider",
      tabIndex: 0,
      "aria-label": "Revision",
      "aria-valuemin": model2.base,
      "aria-valuemax": model2.newest(),
      "aria-valuenow": model2.revision(),
      "aria-valuetext": write2 ? `revision ${write2.r}, ${clock(write2.t)}, ${writerOf(write2)} ${write2.verb} ${write2.touches[0] ? shortName(write2.touches[0].key) : ""}` : `revision ${model2.base}`,
      onPointerDown: down,
      onPointerMove: move,
      onPointerLeave: () => setHover(null),
      children: [
        /* @__PURE__ */ a4("canvas", { ref: canvas, "aria-hidden": "true" }),
        hovered && /* @__PURE__ */ a4("div", { class: "tip", style: { left: `${Math.min(Math.max(hover, 150), Math.max(150, width - 150))}px` }, children: [
          hit.slice(0, MOST_HIT).map((mark, nth) => /* @__PURE__ */ a4("div", { class: "mark-text", children: [
            MARKS[mark.kind],
            ": ",
            /* @__PURE__ */ a4("bdi", { children: mark.text })
          ] }, nth)),
          "#",
          hovered.r,
          " · ",
          clock(hovered.t),
          " · ",
          writerOf(hovered),
          " · ",
          hovered.touches[0] && shortName(hovered.touches[0].key)
        ] })
      ]
    }
  );
}

// src/views/timeline.tsx
var LANE = 24;
var AXIS = 26;
var LABELS = 250;
var MOST_ROWS = 300;
var MARK2 = 6;
var MOST_HIT2 = 4;
function Timeline() {
  const [grouping, setGrouping] = d2("owner");
  const { namespace, search, write: selected } = route.value;
  const query = parseQuery(search);
  void version.value;
  const all = w2(
    () => lanes(model, grouping, (row) => (!namespace || row.n === namespace || row.k === "nodes") && (isEmpty(query) ? !isQuiet(row.k) && isOfInterest(row) : matches(row, query, factsOf(model, row)))),
    [model.writes.length, grouping, namespace, search, model, query.members.some(([member2]) => member2 === "deleted") && model.at]
  );
  const chosen = selected === null ? null : model.find(selected);
  return /* @__PURE__ */ a4("div", { class: chosen ? "timeline with-panel" : "timeline", children: [
    /* @__PURE__ */ a4(
      Card,
      {
        id: "lanes",
        title: "Timeline",
        note: /* @__PURE__ */ a4("span", { class: "choices", children: [
          /* @__PURE__ */ a4("label", { children: [
            "lanes by",
            " ",
            /* @__PURE__ */ a4("select", { value: grouping, onChange: (event) => setGrouping(event.currentTarget.value), children: [
              /* @__PURE__ */ a4("option", { value: "owner", children: "owner" }),
              /* @__PURE__ */ a4("option", { value: "kind", children: "kind" }),
              /* @__PURE__ */ a4("option", { value: "node", children: "node" })
            ] })
          ] }),
          " ",
          count(all.length, "object")
        ] }),
        children: [
          query.notes.map((note) => /* @__PURE__ */ a4("p", { class: "note", children: /* @__PURE__ */ a4("bdi", { children: note }) }, note)),
          !all.length && /* @__PURE__ */ a4(Empty, { children: "Nothing was written in this window that these lanes show." }),
          !!all.length && !showsTables.value && /* @__PURE__ */ a4(Lanes, { all, selected }),
          !!all.length && showsTables.value && /* @__PURE__ */ a4(WriteTable, { all })
        ]
      }
    ),
    chosen && /* @__PURE__ */ a4(Panel, { write: chosen })
  ] });
}
var firstOutside = () => model.writes.find((write2) => write2.outside)?.r ?? 0;
function isOfInterest(row) {
  if (row.k === "nodes" || row.k === "pods" || row.o) return true;
  return (model.byKey.get(rowKey(row)) ?? []).some((index) => model.writes[index].outside);
}
function Lanes({ all, selected }) {
  const place2 = T2(null);
  const canvas = T2(null);
  const [width, height] = useSize(place2);
  const [top, setTop] = d2(0);
  const [range, setRange] = d2(null);
  const [hover, setHover] = d2(null);
  const dragged = T2(null);
  const length = scale.length();
  const whole = { from: Math.max(0, scale.of(model.countUpTo(firstOutside())) - length / 40), to: length };
  const shown = range ?? whole;
  const labels = Math.min(LABELS, Math.round(width * 0.34));
  const view = { all, shown, width, height, top, labels, selected, at: model.at };
  A(() => {
    const context = fit(canvas.current, width, height);
    if (context) draw(context, palette(canvas.current), view);
  }, [all, width, height, top, shown.from, shown.to, selected, version.value, theme.value, marks.value]);
  const positionAt = (x3) => shown.from + (x3 - labels) / Math.max(1, width - labels) * (shown.to - shown.from);
  const zoom = (factor, around = (shown.from + shown.to) / 2) => {
    const wide = Math.min(length, Math.max(200, (shown.to - shown.from) * factor));
    const from = Math.max(0, Math.min(length - wide, around - (around - shown.from) * (wide / (shown.to - shown.from))));
    setRange({ from, to: from + wide });
  };
  const spot = (event) => {
    const box = canvas.current.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  };
  const laneAt = (y5) => y5 < AXIS ? void 0 : all[Math.floor((y5 - AXIS + top) / LANE)];
  const click = (event) => {
    if (dragged.current?.moved) return;
    const { x: x3, y: y5 } = spot(event);
    const lane2 = laneAt(y5);
    if (x3 < labels) {
      if (lane2) go({ view: "object", subject: lane2.key, write: null });
      return;
    }
    const mark2 = lane2 && nearest(lane2, view, x3);
    if (mark2 !== void 0 && mark2 !== null) go({ write: model.writes[mark2].r });
    else moveTo(scale.countAt(positionAt(x3)));
  };
  const wheel = (event) => {
    const { x: x3 } = spot(event);
    if (event.ctrlKey || event.metaKey) {
      event.preventDefault();
      zoom(event.deltaY > 0 ? 1.25 : 0.8, positionAt(x3));
    } else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      event.preventDefault();
      pan((event.deltaX || event.deltaY) / Math.max(1, width) * (shown.to - shown.from));
    }
  };
  const pan = (by, of = shown) => {
    const wide = of.to - of.from;
    if (wide >= length) return;
    const from = Math.max(0, Math.min(length - wide, of.from + by));
    setRange({ from, to: from + wide });
  };
  const move = (event) => {
    const at = spot(event);
    if (event.buttons & 1 && dragged.current) {
      const by = at.x - dragged.current.x;
      if (Math.abs(by) > 3) dragged.current.moved = true;
      if (dragged.current.moved) pan(-by / Math.max(1, width - labels) * (shown.to - shown.from), dragged.current.range);
    }
    setHover(at);
  };
  const lane = hover ? laneAt(hover.y) : void 0;
  const mark = hover && lane && hover.x > labels ? nearest(lane, view, hover.x) : null;
  const onAxis = hover && hover.y < AXIS && hover.x > labels ? marksNear(marks.value, positionAt(hover.x), positionAt(labels + MARK2) - positionAt(labels), model, scale) : [];
  return /* @__PURE__ */ a4(M, { children: [
    /* @__PURE__ */ a4("div", { class: "zoom", role: "group", "aria-label": "Zoom", children: [
      /* @__PURE__ */ a4("button", { type: "button", class: "small", onClick: () => zoom(0.6), title: "Zoom in (Ctrl and wheel)", children: "+" }),
      /* @__PURE__ */ a4("button", { type: "button", class: "small", onClick: () => zoom(1.6), title: "Zoom out", children: "−" }),
      /* @__PURE__ */ a4("button", { type: "button", class: "small", onClick: () => setRange(null), disabled: !range, children: "fit" }),
      /* @__PURE__ */ a4(Legend, {})
    ] }),
    /* @__PURE__ */ a4("div", { class: "lanes", ref: place2, onScroll: (event) => setTop(event.currentTarget.scrollTop), tabIndex: 0, role: "img", "aria-label": `Timeline of ${all.length} objects. Press t for a table.`, children: [
      /* @__PURE__ */ a4("div", { class: "sticky", children: /* @__PURE__ */ a4(
        "canvas",
        {
          ref: canvas,
          onClick: click,
          onWheel: wheel,
          onPointerDown: (event) => dragged.current = { x: spot(event).x, range: shown, moved: false },
          onPointerMove: move,
          onPointerLeave: () => setHover(null)
        }
      ) }),
      /* @__PURE__ */ a4("div", { style: { height: `${Math.max(0, AXIS + all.length * LANE - height)}px` } }),
      hover && onAxis.length > 0 && /* @__PURE__ */ a4("div", { class: "tip", style: { left: `${Math.min(hover.x + 12, Math.max(0, width - 320))}px`, top: `${hover.y + top + 16}px` }, children: onAxis.slice(0, MOST_HIT2).map((found, nth) => /* @__PURE__ */ a4("div", { class: "mark-text", children: [
        MARKS[found.kind],
        ", after #",
        found.r,
        ": ",
        /* @__PURE__ */ a4("bdi", { children: found.text })
      ] }, nth)) }),
      hover && lane && /* @__PURE__ */ a4("div", { class: "tip", style: { left: `${Math.min(hover.x + 12, Math.max(0, width - 320))}px`, top: `${hover.y + top + 16}px` }, children: mark !== null ? /* @__PURE__ */ a4(MarkTip, { index: mark }) : /* @__PURE__ */ a4(LaneTip, { lane, count: hover.x > labels ? scale.countAt(positionAt(hover.x)) : Number.NaN }) })
    ] })
  ] });
}
function MarkTip({ index }) {
  const write2 = model.writes[index];
  return /* @__PURE__ */ a4(M, { children: [
    "#",
    write2.r,
    " · ",
    clock(write2.t),
    " · ",
    /* @__PURE__ */ a4(Writer, { write: write2 }),
    " ",
    write2.verb
  ] });
}
function LaneTip({ lane, count: at }) {
  const life = lane.lives.find((own2) => own2.from <= at && at < own2.to);
  return /* @__PURE__ */ a4(M, { children: [
    kindName(lane.row.k),
    " ",
    lane.row.n ? `${lane.row.n}/` : "",
    lane.row.m,
    life && ` · ${STATES[life.state]}`
  ] });
}
var KINDS = Object.keys(MARKS);
function Legend() {
  return /* @__PURE__ */ a4("span", { class: "legend", "aria-hidden": "true", children: [
    /* @__PURE__ */ a4("span", { class: "diamond" }),
    " change from outside ",
    /* @__PURE__ */ a4("span", { class: "tick" }),
    " write of a component",
    " ",
    KINDS.filter((kind) => marks.value.some((mark) => mark.kind === kind)).map((kind) => /* @__PURE__ */ a4("span", { children: [
      /* @__PURE__ */ a4(MarkSign, { kind }),
      " ",
      MARKS[kind],
      " "
    ] }, kind))
  ] });
}
var xOf = (view, position) => view.labels + (position - view.shown.from) / (view.shown.to - view.shown.from) * (view.width - view.labels);
function nearest(lane, view, x3) {
  let best = null;
  let distance = 7;
  for (const index of lane.marks) {
    const away = Math.abs(xOf(view, scale.of(index + 1)) - x3);
    const isBetter = away < distance || away === distance && model.writes[index].outside;
    if (isBetter) {
      best = index;
      distance = away;
    }
  }
  return best;
}
function draw(context, colors, view) {
  const { all, width, height, top, labels } = view;
  context.clearRect(0, 0, width, height);
  context.font = `12px ${colors.font}`;
  context.textBaseline = "middle";
  const first = Math.max(0, Math.floor(top / LANE));
  const last2 = Math.min(all.length, Math.ceil((top + height) / LANE));
  context.save();
  context.beginPath();
  context.rect(0, AXIS, width, height - AXIS);
  context.clip();
  for (let at = first; at < last2; at++) {
    const y5 = AXIS + at * LANE - top;
    if (at % 2) {
      context.fillStyle = colors.stripe;
      context.fillRect(0, y5, width, LANE);
    }
    drawLabel(context, colors, all[at], y5, labels);
  }
  context.beginPath();
  context.rect(labels, AXIS, width - labels, height - AXIS);
  context.clip();
  for (const gap of model.gaps) hatch(context, xOf(view, scale.of(gap.from)), xOf(view, scale.of(gap.to)), height, colors.faint);
  drawFolds(context, colors, view);
  for (let at = first; at < last2; at++) drawLane(context, colors, all[at], AXIS + at * LANE - top, view);
  const head = xOf(view, scale.of(view.at));
  context.globalAlpha = 0.6;
  context.fillStyle = colors.surface;
  if (head < width) context.fillRect(Math.max(labels, head + 1), AXIS, width, height);
  context.globalAlpha = 1;
  drawArrows(context, colors, view);
  for (const mark of marks.value) {
    const x3 = xOf(view, markPosition(mark, model, scale));
    context.fillStyle = markColor(colors, mark.kind);
    if (x3 >= labels && x3 <= width) context.fillRect(x3 - 0.5, AXIS, 1, height);
  }
  context.restore();
  drawAxis(context, colors, view);
  for (const mark of marks.value) {
    const x3 = xOf(view, markPosition(mark, model, scale));
    if (x3 < labels || x3 > width) continue;
    context.fillStyle = context.strokeStyle = markColor(colors, mark.kind);
    context.fillRect(x3 - 0.5, AXIS - 12, 1, 12);
    markSign(context, mark.kind, x3, AXIS - 8);
  }
  if (head >= labels - 1 && head <= width) {
    context.fillStyle = colors.head;
    context.fillRect(head - 1, AXIS - 6, 2, height);
    context.beginPath();
    context.moveTo(head - 5, AXIS - 8);
    context.lineTo(head + 5, AXIS - 8);
    context.lineTo(head, AXIS - 1);
    context.fill();
  }
}
function drawLabel(context, colors, lane, y5, labels) {
  const x3 = 8 + lane.depth * 14;
  const kind = kindName(lane.row.k);
  context.fillStyle = colors.faint;
  context.fillText(kind, x3, y5 + LANE / 2);
  const from = x3 + context.measureText(`${kind} `).width;
  context.fillStyle = colors.text;
  const room = labels - from - 8;
  let name = lane.row.m;
  if (context.measureText(name).width > room) {
    const wide = context.measureText("0").width;
    const fits = Math.max(4, Math.floor(room / wide));
    const tail = Math.floor(fits / 2);
    name = `${name.slice(0, fits - tail - 1)}…${name.slice(name.length - tail)}`;
  }
  context.fillText(name, from, y5 + LANE / 2, Math.max(10, room));
}
function drawFolds(context, colors, view) {
  context.strokeStyle = colors.line;
  context.setLineDash([2, 4]);
  for (const fold of scale.folds) {
    const x3 = xOf(view, scale.of(fold)) - 10;
    if (x3 < view.labels || x3 > view.width) continue;
    context.beginPath();
    context.moveTo(x3, AXIS);
    context.lineTo(x3, view.height);
    context.stroke();
  }
  context.setLineDash([]);
}
function drawLane(context, colors, lane, y5, view) {
  const middle = y5 + LANE / 2;
  for (const life of lane.lives) {
    const from = Math.max(view.labels, xOf(view, scale.of(life.from)));
    const to = life.to === Number.POSITIVE_INFINITY ? view.width : xOf(view, scale.of(life.to));
    if (to < view.labels || from > view.width) continue;
    drawLife(context, colors, life.state, from, Math.max(2, to - from), middle);
  }
  let before = Number.NEGATIVE_INFINITY;
  for (const index of lane.marks) {
    const write2 = model.writes[index];
    const x3 = xOf(view, scale.of(index + 1));
    if (x3 < view.labels - 6 || x3 > view.width + 6) continue;
    const isSelected = write2.r === view.selected;
    if (x3 - before < 1.5 && !write2.outside && !isSelected) continue;
    before = x3;
    if (write2.outside || isSelected) {
      context.fillStyle = isSelected ? colors.head : colors.accent;
      context.beginPath();
      context.moveTo(x3, middle - 7);
      context.lineTo(x3 + 6, middle);
      context.lineTo(x3, middle + 7);
      context.lineTo(x3 - 6, middle);
      context.fill();
      context.strokeStyle = colors.surface;
      context.stroke();
    } else {
      context.fillStyle = colors.text;
      context.fillRect(x3 - 0.5, middle - 6, 1, 12);
    }
  }
}
function drawLife(context, colors, state, x3, width, middle) {
  const color = colors[`s-${state || "plain"}`];
  context.fillStyle = color;
  context.strokeStyle = color;
  const half = state === "plain" || state === "" || state === "done" || state === "idle" ? 2 : 5;
  if (state === "pending" || state === "progress") {
    context.globalAlpha = state === "progress" ? 0.3 : 0.12;
    context.fillRect(x3, middle - half, width, half * 2);
    context.globalAlpha = 1;
    context.strokeRect(x3 + 0.5, middle - half + 0.5, Math.max(1, width - 1), half * 2 - 1);
  } else if (state === "ending") {
    for (let at = 0; at < width; at += 5) context.fillRect(x3 + at, middle - half, Math.min(3, width - at), half * 2);
  } else {
    context.fillRect(x3, middle - half, width, half * 2);
    if (state === "failed" || state === "unready") {
      context.fillStyle = colors.surface;
      for (let at = 3; at < width - 2; at += 8) context.fillRect(x3 + at, middle - 1, 4, 2);
    }
  }
}
function drawArrows(context, colors, view) {
  if (view.selected === null) return;
  const places = new Map(view.all.map((lane, at) => [lane.key, AXIS + at * LANE - view.top + LANE / 2]));
  context.strokeStyle = colors.head;
  context.fillStyle = colors.head;
  context.lineWidth = 1.25;
  for (const { from, to, fromRevision, toRevision } of arrows(model, view.selected)) {
    const [y1, y22] = [places.get(from), places.get(to)];
    if (y1 === void 0 || y22 === void 0) continue;
    const x1 = xOf(view, scale.of(model.countUpTo(fromRevision)));
    const x22 = xOf(view, scale.of(model.countUpTo(toRevision)));
    const bend = Math.max(12, (x22 - x1) / 2);
    context.beginPath();
    context.moveTo(x1, y1);
    context.bezierCurveTo(x1 + bend, y1, x22 - bend, y22, x22 - 4, y22);
    context.stroke();
    context.beginPath();
    context.moveTo(x22, y22);
    context.lineTo(x22 - 7, y22 - 4);
    context.lineTo(x22 - 7, y22 + 4);
    context.fill();
  }
  context.lineWidth = 1;
}
function drawAxis(context, colors, view) {
  const { width, labels } = view;
  context.fillStyle = colors.surface;
  context.fillRect(0, 0, width, AXIS);
  context.fillStyle = colors.line;
  context.fillRect(0, AXIS - 1, width, 1);
  context.fillRect(labels, 0, 1, view.height);
  context.fillStyle = colors.faint;
  const step = 96;
  let before = "";
  for (let x3 = labels + 4; x3 < width - 60; x3 += step) {
    const position = view.shown.from + (x3 - labels) / (width - labels) * (view.shown.to - view.shown.from);
    const write2 = model.writes[scale.countAt(position)] ?? model.writes[model.writes.length - 1];
    if (!write2) continue;
    const text2 = view.shown.to - view.shown.from < 8e3 ? clock(write2.t) : second(write2.t);
    if (text2 !== before) context.fillText(text2, x3, AXIS / 2 - 2);
    before = text2;
  }
}
function Panel({ write: write2 }) {
  const touch = write2.touches[0];
  const marks2 = model.byKey.get(touch?.key ?? "") ?? [];
  const index = model.countUpTo(write2.r) - 1;
  const before = marks2[marks2.indexOf(index) - 1];
  const effects = model.effects.get(write2.r) ?? [];
  const consequences = model.consequences(write2.r);
  return /* @__PURE__ */ a4(
    Card,
    {
      id: "selected",
      title: `Write #${write2.r}`,
      note: /* @__PURE__ */ a4("button", { type: "button", class: "small", onClick: () => go({ write: null }), "aria-label": "Close (Esc)", children: "×" }),
      children: /* @__PURE__ */ a4("div", { class: "panel", children: [
        /* @__PURE__ */ a4("p", { children: [
          /* @__PURE__ */ a4(Writer, { write: write2 }),
          /* @__PURE__ */ a4("br", {}),
          /* @__PURE__ */ a4("span", { class: "verb", children: write2.verb }),
          " ",
          touch && /* @__PURE__ */ a4(KeyLink, { objectKey: touch.key, hasNamespace: true }),
          write2.touches.length > 1 && /* @__PURE__ */ a4("span", { class: "faint", children: [
            " and ",
            write2.touches.length - 1,
            " more objects"
          ] })
        ] }),
        /* @__PURE__ */ a4("dl", { class: "facts", children: [
          /* @__PURE__ */ a4("dt", { children: "Time" }),
          /* @__PURE__ */ a4("dd", { children: clock(write2.t) }),
          /* @__PURE__ */ a4("dt", { children: "User" }),
          /* @__PURE__ */ a4("dd", { children: /* @__PURE__ */ a4("bdi", { children: write2.user || "unknown" }) }),
          /* @__PURE__ */ a4("dt", { children: "Program" }),
          /* @__PURE__ */ a4("dd", { children: /* @__PURE__ */ a4("bdi", { children: write2.agent || "unknown" }) }),
          /* @__PURE__ */ a4("dt", { children: "Cause" }),
          /* @__PURE__ */ a4("dd", { children: write2.causes.length ? /* @__PURE__ */ a4(Causes, { causes: write2.causes }) : write2.outside ? "none: it came from outside" : "none named" })
        ] }),
        touch && /* @__PURE__ */ a4(M, { children: [
          /* @__PURE__ */ a4("h3", { children: "What changed" }),
          touch.effect === "updated" ? /* @__PURE__ */ a4(Changes, { write: write2, objectKey: touch.key, before, opens: true }) : /* @__PURE__ */ a4("p", { class: "faint", children: [
            "the object was ",
            touch.effect
          ] })
        ] }),
        /* @__PURE__ */ a4("h3", { children: consequences ? `Led to ${count(consequences, "write")}` : "Led to nothing else" }),
        /* @__PURE__ */ a4("ul", { class: "effects", children: effects.slice(0, 30).map((effect) => {
          const after = model.writes[effect];
          return /* @__PURE__ */ a4("li", { children: [
            /* @__PURE__ */ a4("a", { class: "rev", href: address({ write: after.r }), children: [
              "#",
              after.r
            ] }),
            " ",
            /* @__PURE__ */ a4(Writer, { write: after }),
            " ",
            /* @__PURE__ */ a4("span", { class: "verb", children: after.verb }),
            " ",
            after.touches[0] && /* @__PURE__ */ a4(KeyLink, { objectKey: after.touches[0].key })
          ] }, after.r);
        }) }),
        effects.length > 30 && /* @__PURE__ */ a4("p", { class: "note", children: [
          "and ",
          effects.length - 30,
          " more"
        ] }),
        /* @__PURE__ */ a4("p", { class: "buttons", children: [
          /* @__PURE__ */ a4("button", { type: "button", onClick: () => moveTo(model.countUpTo(write2.r)), children: [
            "go to #",
            write2.r
          ] }),
          " ",
          /* @__PURE__ */ a4("button", { type: "button", onClick: () => moveTo(model.countUpTo(write2.r) - 1), children: "and just before" })
        ] })
      ] })
    }
  );
}
function WriteTable({ all }) {
  const keys = new Set(all.map((lane) => lane.key));
  const { model: model2 } = store_exports;
  const found = [];
  for (let at = model2.at - 1; at >= 0 && found.length < MOST_ROWS; at--) {
    if (model2.writes[at].touches.some((touch) => keys.has(touch.key))) found.push(model2.writes[at]);
  }
  const oldest = found.length === MOST_ROWS ? found[found.length - 1].r : 0;
  const marks2 = marks.value.filter((mark) => mark.r <= model2.revision() && mark.r >= oldest);
  const rows2 = [...found, ...marks2].sort((a5, b3) => b3.r - a5.r || ("text" in b3 ? 1 : 0) - ("text" in a5 ? 1 : 0));
  return /* @__PURE__ */ a4("div", { class: "scroll", tabIndex: 0, role: "region", "aria-label": "Writes", children: /* @__PURE__ */ a4("table", { class: "writes", children: [
    /* @__PURE__ */ a4("caption", { class: "hidden", children: "The newest writes up to the revision of the slider" }),
    /* @__PURE__ */ a4("thead", { children: /* @__PURE__ */ a4("tr", { children: [
      /* @__PURE__ */ a4("th", { children: "Revision" }),
      /* @__PURE__ */ a4("th", { children: "Time" }),
      /* @__PURE__ */ a4("th", { children: "Writer" }),
      /* @__PURE__ */ a4("th", { children: "Verb" }),
      /* @__PURE__ */ a4("th", { children: "Object" }),
      /* @__PURE__ */ a4("th", { children: "State after it" }),
      /* @__PURE__ */ a4("th", { children: "Because of" })
    ] }) }),
    /* @__PURE__ */ a4("tbody", { children: rows2.map(
      (write2, nth) => "text" in write2 ? /* @__PURE__ */ a4("tr", { children: [
        /* @__PURE__ */ a4("td", { children: /* @__PURE__ */ a4(RevisionLink, { revision: write2.r }) }),
        /* @__PURE__ */ a4("td", { class: "time", children: clock(markTime(write2, model2) ?? 0) }),
        /* @__PURE__ */ a4("td", { children: MARKS[write2.kind] }),
        /* @__PURE__ */ a4("td", { colSpan: 4, children: /* @__PURE__ */ a4("bdi", { children: write2.text }) })
      ] }, `mark ${nth}`) : /* @__PURE__ */ a4("tr", { children: [
        /* @__PURE__ */ a4("td", { children: /* @__PURE__ */ a4(RevisionLink, { revision: write2.r }) }),
        /* @__PURE__ */ a4("td", { class: "time", children: clock(write2.t) }),
        /* @__PURE__ */ a4("td", { children: /* @__PURE__ */ a4(Writer, { write: write2 }) }),
        /* @__PURE__ */ a4("td", { children: write2.verb }),
        /* @__PURE__ */ a4("td", { children: write2.touches[0] && /* @__PURE__ */ a4(KeyLink, { objectKey: write2.touches[0].key }) }),
        /* @__PURE__ */ a4("td", { children: write2.touches[0]?.after ? STATES[write2.touches[0].after.s ?? ""] : "deleted" }),
        /* @__PURE__ */ a4("td", { children: write2.causes.length ? /* @__PURE__ */ a4(Causes, { causes: write2.causes, lead: "" }) : "" })
      ] }, write2.r)
    ) })
  ] }) });
}

// src/app.tsx
function App() {
  const phase2 = phase.value;
  if (phase2 === "login" || phase2 === "failed") return /* @__PURE__ */ a4(Closed, { isLogin: phase2 === "login" });
  if (phase2 !== "ready") return /* @__PURE__ */ a4(Loading, {});
  return /* @__PURE__ */ a4(Page, {});
}
function Logo() {
  return /* @__PURE__ */ a4("svg", { class: "logo", viewBox: "0 0 20 20", width: "20", height: "20", "aria-hidden": "true", children: [
    /* @__PURE__ */ a4("rect", { x: "1.5", y: "3", width: "10", height: "3.2", rx: "1.6" }),
    /* @__PURE__ */ a4("rect", { x: "5.5", y: "8.4", width: "13", height: "3.2", rx: "1.6", class: "second" }),
    /* @__PURE__ */ a4("rect", { x: "8.5", y: "13.8", width: "8", height: "3.2", rx: "1.6" })
  ] });
}
function Loading() {
  return /* @__PURE__ */ a4("main", { class: "center", "aria-busy": "true", children: /* @__PURE__ */ a4("div", { class: "box", children: [
    /* @__PURE__ */ a4(Logo, {}),
    /* @__PURE__ */ a4("h1", { children: "kstore" }),
    /* @__PURE__ */ a4("p", { role: "status", children: [
      "Loading: ",
      message.value || "starting",
      "…"
    ] }),
    /* @__PURE__ */ a4("progress", { "aria-label": "Loading" })
  ] }) });
}
function Closed({ isLogin }) {
  return /* @__PURE__ */ a4("main", { class: "center", children: /* @__PURE__ */ a4("div", { class: "box", children: [
    /* @__PURE__ */ a4(Logo, {}),
    /* @__PURE__ */ a4("h1", { children: isLogin ? "Log in" : isReport ? "The report cannot be read" : "The server does not answer" }),
    message.value && /* @__PURE__ */ a4("p", { class: "problem", children: message.value }),
    isLogin ? /* @__PURE__ */ a4("p", { children: [
      "A link opens this page once, within a minute. Get one with ",
      /* @__PURE__ */ a4("code", { children: "kstore-server ui" })
    ] }) : isReport ? null : /* @__PURE__ */ a4("button", { type: "button", onClick: () => location.reload(), children: "Try again" })
  ] }) });
}
function Page() {
  useKeys();
  const { view, subject } = route.value;
  const main = T2(null);
  A(() => main.current?.scrollTo(0, 0), [view, subject]);
  return /* @__PURE__ */ a4("div", { class: "page", "data-at": revision.value, "data-view": view, children: [
    /* @__PURE__ */ a4("a", { class: "skip", href: "#main", onClick: (event) => (event.preventDefault(), document.getElementById("main")?.focus()), children: "To the content" }),
    /* @__PURE__ */ a4(Top, {}),
    /* @__PURE__ */ a4(Kinds, {}),
    /* @__PURE__ */ a4("main", { id: "main", ref: main, tabIndex: -1, class: isLive.value ? "" : "past", children: [
      /* @__PURE__ */ a4("h1", { class: "hidden", children: view }),
      view === "overview" && /* @__PURE__ */ a4(Overview, {}),
      view === "timeline" && /* @__PURE__ */ a4(Timeline, {}),
      view === "object" && /* @__PURE__ */ a4(ObjectView, {}, route.value.subject),
      view === "list" && /* @__PURE__ */ a4(List, {}, subject),
      view === "compare" && /* @__PURE__ */ a4(Compare, {}),
      view === "scheduling" && /* @__PURE__ */ a4(Scheduling, {}),
      view === "server" && /* @__PURE__ */ a4(Server, {})
    ] }),
    /* @__PURE__ */ a4(Slider, {}),
    showsHelp.value && /* @__PURE__ */ a4(Help, {})
  ] });
}
var VIEWS = [
  ["overview", "Overview"],
  ["timeline", "Timeline"],
  ["list", "Objects"],
  ["compare", "Compare"],
  ["scheduling", "Scheduling"],
  ["server", "Server"]
];
function Top() {
  const { view, namespace, search, subject } = route.value;
  const namespaces = [...tree.value.rows.values()].filter((row) => row.k === "namespaces").map((row) => row.m).sort(natural);
  if (namespace && !namespaces.includes(namespace)) namespaces.push(namespace);
  const about2 = about.value;
  return /* @__PURE__ */ a4("header", { class: "top", children: [
    /* @__PURE__ */ a4("a", { class: "brand", href: address({ view: "overview", subject: "", search: "" }), "aria-label": "kstore: overview", children: [
      /* @__PURE__ */ a4(Logo, {}),
      " kstore"
    ] }),
    /* @__PURE__ */ a4("nav", { "aria-label": "Views", children: [
      VIEWS.map(([own2, name]) => /* @__PURE__ */ a4("a", { href: address({ view: own2, subject: "", ...own2 === "list" ? {} : { search: "" } }), "aria-current": view === own2 ? "page" : void 0, children: name }, own2)),
      view === "object" && /* @__PURE__ */ a4("a", { href: address({}), "aria-current": "page", children: kindName(subject.split("/")[0]) })
    ] }),
    /* @__PURE__ */ a4("span", { class: "space" }),
    /* @__PURE__ */ a4("label", { class: "choice", children: [
      /* @__PURE__ */ a4("span", { class: "hidden", children: "Namespace" }),
      /* @__PURE__ */ a4("select", { value: namespace, onChange: (event) => go({ namespace: event.currentTarget.value }), children: [
        /* @__PURE__ */ a4("option", { value: "", children: "all namespaces" }),
        namespaces.map((name) => /* @__PURE__ */ a4("option", { value: name, children: name }, name))
      ] })
    ] }),
    /* @__PURE__ */ a4("label", { class: "search", children: [
      /* @__PURE__ */ a4("span", { class: "hidden", children: "Search" }),
      /* @__PURE__ */ a4(
        "input",
        {
          id: "search",
          type: "search",
          placeholder: "Search: web, kind:pod, app=web …",
          value: search,
          autocomplete: "off",
          spellcheck: false,
          onInput: (event) => {
            const text2 = event.currentTarget.value;
            const stays = view === "timeline" || view === "list" && route.value.subject === subject;
            go(stays ? { search: text2 } : { view: "list", subject: "", search: text2 }, stays);
          }
        }
      ),
      /* @__PURE__ */ a4("kbd", { "aria-hidden": "true", children: "/" })
    ] }),
    about2 && /* @__PURE__ */ a4("span", { class: "user", title: `You see what ${about2.user} may see`, children: [
      /* @__PURE__ */ a4("bdi", { children: about2.user }),
      isReport ? /* @__PURE__ */ a4("span", { class: "tag", children: "report" }) : about2.clock === "virtual" && /* @__PURE__ */ a4("span", { class: "tag", children: "virtual time" })
    ] }),
    /* @__PURE__ */ a4("button", { type: "button", class: "icon", "aria-label": "Dark or light (d)", title: "Dark or light (d)", onClick: toggleTheme, children: /* @__PURE__ */ a4("svg", { viewBox: "0 0 12 12", width: "14", height: "14", "aria-hidden": "true", children: /* @__PURE__ */ a4("path", { d: "M6 1a5 5 0 1 0 0 10A5 5 0 0 0 6 1zm0 1.3v7.4a3.7 3.7 0 0 1 0-7.4z", "fill-rule": "evenodd" }) }) }),
    /* @__PURE__ */ a4("button", { type: "button", class: "icon", "aria-label": "Help (?)", title: "Help (?)", onClick: () => showsHelp.value = true, children: "?" })
  ] });
}
function Kinds() {
  const { view, subject, namespace } = route.value;
  const counts = /* @__PURE__ */ new Map();
  for (const row of tree.value.rows.values()) {
    if (!namespace || row.n === namespace) counts.set(row.k, (counts.get(row.k) ?? 0) + 1);
  }
  const found = [...counts.entries()].sort(([a5], [b3]) => place(a5) - place(b3) || natural(kindName(a5), kindName(b3)));
  const main = found.filter(([kind]) => place(kind) < MAIN.length || isCustom(kind));
  const rest = found.filter((entry) => !main.includes(entry));
  const hidden = [...kinds.value.values()].filter((kind) => kind.visible === "none").map((kind) => kind.plural);
  const link = ([kind, number]) => /* @__PURE__ */ a4("li", { children: /* @__PURE__ */ a4("a", { href: address({ view: "list", subject: kind, search: "" }), "aria-current": view === "list" && subject === kind ? "page" : void 0, title: kind, children: [
    /* @__PURE__ */ a4("span", { children: kindName(kind) }),
    " ",
    /* @__PURE__ */ a4("span", { class: "number", children: number.toLocaleString("en") })
  ] }) }, kind);
  return /* @__PURE__ */ a4("nav", { class: "kinds", "aria-label": "Kinds", children: [
    /* @__PURE__ */ a4("ul", { children: main.map(link) }),
    rest.length > 0 && /* @__PURE__ */ a4("details", { children: [
      /* @__PURE__ */ a4("summary", { children: "other kinds" }),
      /* @__PURE__ */ a4("ul", { children: rest.map(link) })
    ] }),
    isCut.value && /* @__PURE__ */ a4("p", { class: "note", children: "The server has more objects than the page shows." }),
    hidden.length > 0 && hidden.length < kinds.value.size && /* @__PURE__ */ a4("p", { class: "note", title: hidden.join(", "), children: [
      "not shown, for want of permission: ",
      hidden.length > 4 ? `${hidden.slice(0, 3).join(", ")} and ${hidden.length - 3} more kinds` : hidden.join(", ")
    ] })
  ] });
}
var MAIN = [
  "deployments.apps",
  "statefulsets.apps",
  "daemonsets.apps",
  "replicasets.apps",
  "jobs.batch",
  "cronjobs.batch",
  "pods",
  "nodes",
  "services",
  "ingresses.networking.k8s.io",
  "configmaps",
  "secrets",
  "persistentvolumeclaims",
  "persistentvolumes",
  "namespaces",
  "events"
];
var place = (kind) => {
  const at = MAIN.indexOf(kind);
  return at < 0 ? MAIN.length : at;
};
var isCustom = (kind) => {
  const group = kinds.value.get(kind)?.group ?? "";
  return group.includes(".") && !group.endsWith(".k8s.io");
};
function Help() {
  const dialog = T2(null);
  A(() => dialog.current?.showModal(), []);
  const keys = [
    ["1 2 3 4 5 6", "overview, timeline, objects, compare, scheduling, server"],
    ["← →", "one revision back or on"],
    ["Shift ← →", "to the change from outside before or after"],
    ["PgUp PgDn", "a tenth of the window back or on"],
    ["Home End", "the oldest revision; now"],
    ["Space", "play"],
    ["[", "compare with this revision"],
    ["j k, Enter", "the row below or above; open it"],
    ["/ or Ctrl K", "search"],
    ["t", "timeline and charts as tables"],
    ["d", "dark or light"],
    ["Esc", "close"]
  ];
  return /* @__PURE__ */ a4("dialog", { ref: dialog, "aria-labelledby": "help-title", onClose: () => showsHelp.value = false, onClick: (event) => event.target === dialog.current && dialog.current?.close(), children: /* @__PURE__ */ a4("div", { class: "help", children: [
    /* @__PURE__ */ a4("h2", { id: "help-title", children: "Keys and signs" }),
    /* @__PURE__ */ a4("dl", { children: keys.map(([key, text2]) => /* @__PURE__ */ a4("div", { children: [
      /* @__PURE__ */ a4("dt", { children: /* @__PURE__ */ a4("kbd", { children: key }) }),
      /* @__PURE__ */ a4("dd", { children: text2 })
    ] }, key)) }),
    /* @__PURE__ */ a4("p", { children: [
      "The bar below has the writes of the window over time; stretches without writes are folded. Diamonds are ",
      /* @__PURE__ */ a4("strong", { children: "changes from outside" }),
      ": by a person or a program that is no part of the control plane. All views show the revision of the slider; the address has it, so a link leads there."
    ] }),
    /* @__PURE__ */ a4("p", { children: [
      "Search: words match names, kinds, labels and images; ",
      /* @__PURE__ */ a4("code", { children: "kind:pod ns:default node:node-1 image:nginx state:pending app=web" }),
      " narrow it."
    ] }),
    /* @__PURE__ */ a4("button", { type: "button", onClick: () => dialog.current?.close(), children: "close" })
  ] }) });
}
function useKeys() {
  A(() => {
    const press = (event) => {
      const target = event.target;
      const isField = /^(INPUT|SELECT|TEXTAREA)$/.test(target.tagName);
      if (event.key === "k" && (event.ctrlKey || event.metaKey) || event.key === "/" && !isField) {
        event.preventDefault();
        document.getElementById("search")?.focus();
        return;
      }
      if (event.key === "Escape" && isField) target.blur();
      if (isField || event.ctrlKey || event.metaKey || event.altKey) return;
      if (showsHelp.value) return;
      if ((event.key === " " || event.key === "Enter") && /^(BUTTON|A|SUMMARY)$/.test(target.tagName)) return;
      if (act(event.key, event.shiftKey)) event.preventDefault();
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, []);
}
var ROWS = "main tbody tr, main .choose li, main .waiting li, main .differing li, main .history li";
function focusRow(step) {
  const links = [...document.querySelectorAll(ROWS)].map((row) => row.querySelector("a")).filter((link) => link !== null);
  const current = links.findIndex((link) => link.closest(ROWS).contains(document.activeElement));
  const next = links[current < 0 ? 0 : Math.min(links.length - 1, Math.max(0, current + step))];
  next?.focus();
  next?.scrollIntoView({ block: "nearest" });
  return next !== void 0;
}
function act(key, shift) {
  const { model: model2 } = store_exports;
  const tenth = Math.max(1, Math.round(model2.writes.length / 10));
  const isListened = document.activeElement?.closest(".yaml, .lanes, .scroll");
  switch (key) {
    case "1":
      return go({ view: "overview", subject: "", search: "", write: null }), true;
    case "2":
      return go({ view: "timeline", subject: "", search: "" }), true;
    case "3":
      return go({ view: "list", subject: "", write: null }), true;
    case "4":
      return go({ view: "compare", subject: "", search: "", write: null }), true;
    case "5":
      return go({ view: "scheduling", subject: "", search: "", write: null }), true;
    case "6":
      return go({ view: "server", subject: "", search: "", write: null }), true;
    case "[":
      return go({ view: "compare", subject: "", search: "", write: null, mark: model2.revision() }), true;
    case "ArrowLeft":
      return moveTo(shift ? model2.nextOutside(-1) : model2.at - 1), true;
    case "ArrowRight":
      return moveTo(shift ? model2.nextOutside(1) : model2.at + 1), true;
    case "PageUp":
      return !isListened && (moveTo(model2.at - tenth), true);
    case "PageDown":
      return !isListened && (moveTo(model2.at + tenth), true);
    case "Home":
      return moveTo(0), true;
    case "End":
      return now(), true;
    case " ":
      return isPlaying.value = !isPlaying.value, true;
    case "j":
    case "k":
      return focusRow(key === "j" ? 1 : -1);
    case "t":
      return showsTables.value = !showsTables.value, true;
    case "d":
      return toggleTheme(), true;
    case "?":
      return showsHelp.value = true, true;
    case "Escape":
      return route.value.write !== null && (go({ write: null }), true);
    default:
      return false;
  }
}

// src/main.tsx
K(/* @__PURE__ */ a4(App, {}), document.getElementById("app"));
void start();
/*
The licences of what is in this file besides kstore:

preact

The MIT License (MIT)

Copyright (c) 2015-present Jason Miller

Permission is hereby granted, free of charge, to any person obtaining a copy
of this software and associated documentation files (the "Software"), to deal
in the Software without restriction, including without limitation the rights
to use, copy, modify, merge, publish, distribute, sublicense, and/or sell
copies of the Software, and to permit persons to whom the Software is
furnished to do so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in all
copies or substantial portions of the Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR
IMPLIED, INCLUDING BUT NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY,
FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE
AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER
LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM,
OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE
SOFTWARE.

@preact/signals

The MIT License (MIT)

Copyright (c) 2022-present Preact Team

Permission is hereby granted, free of charge, to any person obtaining a copy
of this software and associated documentation files (the "Software"), to deal
in the Software without restriction, including without limitation the rights
to use, copy, modify, merge, publish, distribute, sublicense, and/or sell
copies of the Software, and to permit persons to whom the Software is
furnished to do so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in all
copies or substantial portions of the Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR
IMPLIED, INCLUDING BUT NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY,
FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE
AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER
LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM,
OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE
SOFTWARE.

@preact/signals-core

The MIT License (MIT)

Copyright (c) 2022-present Preact Team

Permission is hereby granted, free of charge, to any person obtaining a copy
of this software and associated documentation files (the "Software"), to deal
in the Software without restriction, including without limitation the rights
to use, copy, modify, merge, publish, distribute, sublicense, and/or sell
copies of the Software, and to permit persons to whom the Software is
furnished to do so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in all
copies or substantial portions of the Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR
IMPLIED, INCLUDING BUT NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY,
FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE
AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER
LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM,
OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE
SOFTWARE.
*/
